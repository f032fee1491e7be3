/* The search marks words on the page that it leads to. In the titles of icons, which are no boxes,
   that fails, and stops it for the rest of the page: nothing is marked in pictures. */
document.addEventListener(
  "DOMContentLoaded",
  () => {
    for (const one of document.querySelectorAll("svg *")) one.classList.add("nohighlight");
  },
  { capture: true },
);
