// Opens each page of the site in a browser with a narrow window, and uses the search and the themes.
//
//     node tests/scripts/site.mjs <browser> <folder of the site> <folder for pictures of what was seen>
//
// It fails if a link leads nowhere, a request fails or goes to another host, the console shows an error, a diagram is not drawn,
// or a picture is wider than the window.
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, resolve } from "node:path";

const [browserPath, site, pictures] = process.argv.slice(2);
const puppeteer = createRequire(resolve(".tools/site/package.json"))("puppeteer-core");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png" };
const NARROW = { width: 400, height: 800 };
const WIDE = { width: 1280, height: 900 };

const files = readdirSync(site, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => resolve(entry.parentPath ?? entry.path, entry.name).slice(resolve(site).length));
// toc.html is the frame that other pages show to a reader without scripts.
const pages = files.filter((file) => file.endsWith(".html") && file !== "/toc.html");

const server = createServer((request, reply) => {
    const file = decodeURIComponent(new URL(request.url, "http://site").pathname);
    if (!files.includes(file)) {
        reply.writeHead(404).end();
        return;
    }
    reply.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" }).end(readFileSync(site + file));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const problems = [];
const problem = (text) => problems.push(text.replaceAll(origin, ""));
const expect = (holds, text) => holds || problem(text);

const browser = await puppeteer.launch({
    executablePath: browserPath,
    // The sandbox of the browser does not start for root.
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
const tab = await browser.newPage();
tab.on("console", (message) => message.type() === "error" && problem(`${tab.url()}: the console shows: ${message.text()}`));
tab.on("pageerror", (error) => problem(`${tab.url()}: a script fails: ${error.message}`));
tab.on("requestfailed", (request) => problem(`${tab.url()}: ${request.url()}: ${request.failure()?.errorText}`));
tab.on("request", (request) => {
    const own = request.url().startsWith(origin) || request.url().startsWith("data:");
    expect(own, `${tab.url()} loads ${request.url()} of another host`);
});
tab.on("response", (response) => expect(response.status() < 400, `${tab.url()}: ${response.url()}: status ${response.status()}`));

mkdirSync(pictures, { recursive: true });
const picture = (name) => tab.screenshot({ path: `${pictures}/${name}.png` });

async function open(page) {
    await tab.goto(origin + page, { waitUntil: "load" });
    const diagrams = (await tab.$$("[data-diagram]")).length;
    const drawn = () => tab.waitForSelector("[data-diagram]:not(:has(> svg))", { hidden: true, timeout: 20_000 });
    await drawn().catch(() => problem(`${page}: a diagram is not drawn`));
    return diagrams;
}

// What each page has: the ids that a link can lead to, its links, and the pictures that are too wide.
const seen = new Map();
let diagrams = 0;
await tab.setViewport(NARROW);
for (const page of pages) {
    diagrams += await open(page);
    const content = await tab.evaluate(() => ({
        ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
        links: [...document.querySelectorAll("a[href]")].map((link) => link.href),
        wide: [...document.querySelectorAll("main img, main svg")]
            .filter((shown) => shown.getBoundingClientRect().right > innerWidth)
            .map((shown) => shown.outerHTML.slice(0, 80)),
        width: document.documentElement.scrollWidth,
    }));
    seen.set(page, content);
    content.wide.forEach((shown) => problem(`${page}: ${shown} is wider than a window of ${NARROW.width} px`));
    expect(content.width <= NARROW.width, `${page} is ${content.width} px wide in a window of ${NARROW.width} px`);
}

let links = 0;
for (const [page, content] of seen) {
    for (const link of new Set(content.links)) {
        if (!link.startsWith(origin)) {
            expect(/^https?:/.test(link), `${page}: ${link}: neither a page nor an address`);
            continue;
        }
        links += 1;
        const goal = new URL(link);
        const anchor = decodeURIComponent(goal.hash.slice(1));
        if (!files.includes(goal.pathname)) {
            problem(`${page}: ${link}: there is no such file`);
        } else if (anchor && !seen.get(goal.pathname)?.ids.includes(anchor)) {
            problem(`${page}: ${link}: the page has no such heading`);
        }
    }
}

const HOW = "/docs/guide/how-it-works.html";
await open(HOW);
await picture("narrow");

await tab.setViewport(WIDE);
await open("/index.html");
await picture("front");
await tab.click("#mdbook-search-toggle");
await tab.type("#mdbook-searchbar", "Kinesis");
await tab.waitForSelector("#mdbook-searchresults li a[href*='batches.html']").catch(() => problem("the search for Kinesis does not find the batches"));
await picture("search");

const background = () => tab.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
const isDark = async () => (await background()).match(/\d+/g).every((colour) => colour < 80);
expect(!(await isDark()), "the light theme is dark");
await open(HOW);
const colour = () => getComputedStyle(document.querySelector("[data-diagram] rect") ?? document.body).fill;
const light = await tab.evaluate(colour);
await tab.click("#mdbook-theme-toggle");
await tab.click("#mdbook-theme-navy");
expect(await isDark(), "the theme navy is not dark");
await tab.waitForFunction(`(${colour})() !== ${JSON.stringify(light)}`, { timeout: 20_000 })
    .catch(() => problem("the diagrams keep the colours of the light theme"));
await picture("dark");
await open("/index.html");
expect(await isDark(), "the chosen theme is gone on the next page");
await tab.evaluate(() => localStorage.clear());
await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await open("/index.html");
expect(await isDark(), "a reader whose system is dark gets a light page");

await browser.close();
server.close();
problems.forEach((text) => console.log(text));
console.log(`${pages.length} pages, ${links} links, ${diagrams} diagrams, ${problems.length} problems; pictures in ${pictures}`);
process.exit(problems.length > 0 || links === 0 || diagrams === 0 ? 1 : 0);
