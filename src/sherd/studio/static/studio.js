// What a page can do without a round trip: sliders that follow their numbers, files that are dropped.
"use strict";

const value = (slider) =>
  slider.dataset.scale === "log" ? Number((10 ** slider.value).toPrecision(2)) : slider.value;

document.addEventListener("input", (event) => {
  const given = event.target;
  const other = given.dataset.with && document.getElementById(given.dataset.with);
  if (!other) return;
  if (given.type === "range") {
    other.value = value(given);
    other.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (Number(given.value) > 0) {
    other.value = other.dataset.scale === "log" ? Math.log10(given.value) : given.value;
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
});

const dropped = (event) => event.target.closest?.("form.drop");

document.addEventListener("dragover", (event) => {
  event.preventDefault(); // a file beside the form must not replace the page
  dropped(event)?.classList.add("over");
});

document.addEventListener("dragleave", (event) => dropped(event)?.classList.remove("over"));

document.addEventListener("drop", (event) => {
  event.preventDefault();
  const form = dropped(event);
  form?.classList.remove("over");
  const file = form?.querySelector("input[type=file]");
  if (!file || !event.dataTransfer.files.length) return;
  file.files = event.dataTransfer.files;
  file.focus();
});
