// What the charts say under the pointer, and the button for light and dark. The page reads the same without it.
const root = document.documentElement;
const dark = () => (root.dataset.mode || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const button = document.querySelector("button");
const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
button.addEventListener("click", () => { root.dataset.mode = dark() ? "light" : "dark"; label(); });
label();

const LEFT = 52, RIGHT = 12;
const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const scales = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
function said(value, unit) {
  if (value === null) return "–";
  if (unit === "ms") {
    for (const [size, name] of scales) if (value >= size) return `${+(value / size).toPrecision(3)} ${name}`;
    return `${+value.toPrecision(3)} ms`;
  }
  return value.toLocaleString("en-GB", { maximumFractionDigits: 2 }) + (unit ? ` ${unit}` : "");
}
for (const chart of document.querySelectorAll("figure[data-readings]")) {
  const { t: times, s: series, u: unit, w: WIDTH } = JSON.parse(chart.dataset.readings);
  const svg = chart.querySelector("svg"), cursor = chart.querySelector(".cursor"), output = chart.querySelector("output");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const span = Math.max(1, times[times.length - 1] - times[0]);
    const at = times[0] + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * span;
    let place = 0;
    times.forEach((time, number) => { if (Math.abs(time - at) < Math.abs(times[place] - at)) place = number; });
    const x = LEFT + (WIDTH - LEFT - RIGHT) * (times[place] - times[0]) / span;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    const lines = series.map(([name, ...values]) => `${name}  ${said(values[place], unit)}`);
    output.textContent = [clock.format(times[place]) + " UTC", ...lines].join("\n");
    const left = (x / WIDTH) * box.width;
    output.style.left = left > box.width / 2 ? "auto" : `${left + 28}px`;
    output.style.right = left > box.width / 2 ? `${box.width - left + 28}px` : "auto";
    chart.classList.add("read");
  });
  svg.addEventListener("pointerleave", () => chart.classList.remove("read"));
}
