// What a page can do without a round trip: a slider that follows its number, and the other way.
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
