# sdcMicro's microaggregation attribute by attribute; started by compare.py.
# Arguments: a CSV of numbers, the group size, a file for the result. Prints seconds of processor time.
# Without the package, its own source is compiled as the package would be and run: SDCMICRO_SOURCES
# names a folder that holds sdcMicro's R files. The class that is declared is one that nothing here uses.
given <- commandArgs(trailingOnly = TRUE)
sources <- Sys.getenv("SDCMICRO_SOURCES")
if (requireNamespace("sdcMicro", quietly = TRUE) || sources == "") {
  suppressPackageStartupMessages(library(sdcMicro))
} else {
  setClass("sdcMicroObj", representation("VIRTUAL"))
  compiled <- tempfile(fileext = ".Rc")
  invisible(capture.output(
    compiler::cmpfile(file.path(sources, "R", "microaggregation.R"), compiled)
  ))
  compiler::loadcmp(compiled)
}
table <- read.csv(given[1])
used <- system.time(
  made <- microaggregation(table, method = "onedims", aggr = as.integer(given[2]))
)
write.csv(made$mx, given[3], row.names = FALSE)
cat(used[["user.self"]] + used[["sys.self"]], "\n")
