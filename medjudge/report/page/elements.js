"use strict";
// --- Elements and texts of a page -----------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

let texts = {};

/** A text of the page in its language, with its {values}. */
function t(text, values = {}) {
  return (texts[text] ?? text).replace(/\{(\w+)\}/gu, (_, name) => values[name]);
}

/** Control characters as their pictures, so that nothing in a text is invisible. */
function visible(text) {
  return String(text)
    .replace(/\r\n?/gu, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/gu, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
    .replace(/\u007f/gu, "\u2421");
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return made;
}
