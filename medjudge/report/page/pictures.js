// --- Pictures: tables and plots as PNG, drawn on a canvas because the page's policy lets nothing else in -------------

const SCALE = 2; // pixels of a picture for one of the page's
const MARGIN = 12;

function saveCanvas(canvas, name) {
  canvas.toBlob((blob) => download(blob, name), "image/png");
}

function canvasOf(width, height, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(SCALE * width);
  canvas.height = Math.ceil(SCALE * height);
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  context.fillStyle = colour;
  context.fillRect(0, 0, width, height);
  return { canvas, context };
}

const LINE = 18; // the height of a picture's caption

/** Writes below a picture where its numbers are from: run, judge, validation status, date. */
function caption(context, shown, x, y, colour, width) {
  const source = shown.closest(".panel")?.dataset.source;
  if (!source) return;
  context.font = "12px sans-serif";
  context.fillStyle = colour;
  context.fillText(source, x, y + LINE - 5, width);
}

function savePlot(image) {
  const { naturalWidth: width, naturalHeight: height } = image;
  const { canvas, context } = canvasOf(width, height + LINE, "white");
  context.drawImage(image, 0, 0);
  caption(context, image, MARGIN, height, "#444444", width - 2 * MARGIN);
  saveCanvas(canvas, fileName(image, "png"));
}

/** A table as it looks, all of it, also what the frame around it has scrolled out of sight. */
function saveTablePicture(table) {
  const frame = table.closest(".scroll");
  const scrolled = frame?.scrollLeft;
  if (frame) frame.scrollLeft = 0; // the first column stands where it belongs
  const box = table.getBoundingClientRect();
  const paper = getComputedStyle(document.body).backgroundColor;
  const { canvas, context } = canvasOf(box.width + 2 * MARGIN, box.height + 2 * MARGIN + LINE, paper);
  context.translate(MARGIN - box.x, MARGIN - box.y);
  const hidden = (node) => node.closest(".savers, .unseen");
  for (const one of table.querySelectorAll("*")) if (!hidden(one)) drawBox(context, one);
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (!hidden(walker.currentNode.parentElement)) drawText(context, walker.currentNode);
  caption(context, table, box.x, box.bottom + MARGIN / 2, getComputedStyle(document.body).color, box.width);
  if (frame) frame.scrollLeft = scrolled;
  saveCanvas(canvas, fileName(table, "png"));
}

/** Background and lines of an element, or the shape that it is. */
function drawBox(context, one) {
  const style = getComputedStyle(one);
  const { x, y, width, height } = one.getBoundingClientRect();
  context.save();
  if (one instanceof SVGElement) drawShape(context, one, style, { x, y, width, height });
  else {
    context.beginPath();
    context.roundRect(x, y, width, height, parseFloat(style.borderTopLeftRadius) || 0);
    context.fillStyle = style.backgroundColor;
    context.fill();
    const all = parseFloat(style.borderTopWidth);
    const below = parseFloat(style.borderBottomWidth);
    context.strokeStyle = style.borderBottomColor;
    context.lineWidth = below;
    if (all) context.stroke();
    else if (below) context.strokeRect(x, y + height - below / 2, width, 0);
    if (style.outlineStyle === "solid") {
      context.strokeStyle = style.outlineColor;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }
  }
  context.restore();
}

function drawShape(context, one, style, { x, y, width, height }) {
  context.globalAlpha = Number(style.opacity);
  if (one.nodeName === "rect") {
    context.fillStyle = style.fill;
    context.fillRect(x, y, width, height);
  } else if (one.nodeName === "line") {
    const thick = parseFloat(style.strokeWidth);
    context.fillStyle = style.stroke;
    context.fillRect(x, y + (height - thick) / 2, width, thick);
  }
}

/** The lines of a text, each where the page has it. */
function drawText(context, node) {
  const style = getComputedStyle(node.parentElement);
  const range = document.createRange();
  context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.fillStyle = style.color;
  let line = null;
  const draw = () => {
    if (!line?.text.trim()) return;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = context.measureText(line.text);
    context.fillText(line.text, line.x, line.y + (line.height + above - below) / 2);
  };
  let place = 0;
  for (const sign of node.data) {
    range.setStart(node, place);
    range.setEnd(node, (place += sign.length));
    const [box] = range.getClientRects();
    if (!box || (!box.width && !line)) continue; // white space that the page leaves out
    if (line && Math.abs(box.y - line.y) < 2) line.text += sign;
    else {
      draw();
      line = { text: sign, x: box.x, y: box.y, height: box.height };
    }
  }
  draw();
}
