# sdcMicro's microaggregation attribute by attribute; started by compare.py.
# Arguments: a CSV of numbers, the group size, a file for the result. Prints seconds of processor time.
given <- commandArgs(trailingOnly = TRUE)
suppressPackageStartupMessages(library(sdcMicro))
table <- read.csv(given[1])
used <- system.time(
  made <- microaggregation(table, method = "onedims", aggr = as.integer(given[2]))
)
write.csv(made$mx, given[3], row.names = FALSE)
cat(used[["user.self"]] + used[["sys.self"]], "\n")
