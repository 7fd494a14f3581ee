// Draws every figure into its place, in the page's own colours, and again where the page's colours or width change.
(function () {
  "use strict";
  const plots = Array.from(document.querySelectorAll(".plot"));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 600px)").matches;
  const config = { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d"] };

  function colours(onPaper) {
    const ink = dark.matches && !onPaper ? "#d8d8d8" : "#333333";
    return { "font.color": ink };
  }

  function recolour(onPaper, width) {
    plots.forEach(function (plot) {
      Plotly.relayout(plot, Object.assign({ width: width, autosize: width === null }, colours(onPaper)));
    });
  }

  plots.forEach(function (plot) {
    const figure = JSON.parse(document.getElementById(plot.dataset.figure).textContent);
    if (narrow) {
      figure.layout.height += 80; // the legend takes more lines
    }
    figure.layout.font.color = colours(false)["font.color"];
    Plotly.newPlot(plot, figure.data, figure.layout, config);
  });
  dark.addEventListener("change", function () { recolour(false, null); });
  window.addEventListener("beforeprint", function () { recolour(true, 680); });
  window.addEventListener("afterprint", function () { recolour(false, null); });
})();
