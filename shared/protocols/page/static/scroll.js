// Where the reader is on the page, and its end.

const NEAR = 24; // pixels from the end, where the page follows an answer
const FAR = 400; // where the button to the end appears
const toEnd = document.querySelector("#to-end");

function pixelsToEnd() {
  const { scrollTop, clientHeight, scrollHeight } = document.documentElement;
  return scrollHeight - clientHeight - scrollTop;
}

export function scrollToEnd() {
  scrollTo({ top: document.body.scrollHeight });
}

/** Lets the page grow; scrolls to its new end, unless the reader has scrolled away from the old one. */
export function keepEndInView(grow) {
  const isNear = pixelsToEnd() < NEAR;
  grow();
  if (isNear) scrollToEnd();
}

/** Shows the button to the end where that is far away; `arrived()` is called after its click. */
export function watchEnd(arrived) {
  const show = () => (toEnd.hidden = pixelsToEnd() < FAR);
  addEventListener("scroll", show, { passive: true });
  new ResizeObserver(show).observe(document.querySelector("main"));
  toEnd.addEventListener("click", () => {
    scrollToEnd();
    arrived();
  });
}
