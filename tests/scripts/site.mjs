// Opens each page of the site in a browser, in each of WIDTHS, in the light and the dark mode, and uses the search.
//
//     node tests/scripts/site.mjs <browser> <folder of the site> <folder for pictures of what was seen>
//
// It fails if a link leads nowhere, a request fails or goes to another host, the console shows an error, a diagram is not drawn, a page
// does not fit or is hard to see (tests/scripts/site-page.mjs), has no link to the repository or a picture that cannot be opened large,
// or a word of docs/site/search.json does not find its page. Each page is printed, and some are opened without scripts.
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, resolve } from "node:path";
import { content, doesNotFit, tooFaint } from "./site-page.mjs";

const [browserPath, site, pictures] = process.argv.slice(2);
const puppeteer = createRequire(resolve(".tools/site/package.json"))("puppeteer-core");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png" };
// Of a phone, a tablet and a laptop.
const WIDTHS = [390, 768, 1280];
const PHONE = 390;
// Of A4 with its margins.
const PAPER = 718;
const MODES = { light: "light", dark: "navy" };
const [, repository] = readFileSync("Cargo.toml", "utf8").match(/^repository = "(.*)"$/m);
const words = JSON.parse(readFileSync("docs/site/search.json", "utf8"));

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
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    reply.writeHead(200, { "content-type": type, "cache-control": "max-age=3600" }).end(readFileSync(site + file));
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
tab.setDefaultTimeout(60_000);
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
const size = (width) => tab.setViewport({ width, height: 900 });

/** Changes the width of an open page. A wide one shows the list of chapters, as if it had been opened so. */
async function resize(width) {
    await size(width);
    await tab.evaluate((shown) => {
        const toggle = document.getElementById("mdbook-sidebar-toggle-anchor");
        if (toggle.checked !== shown) {
            toggle.click();
        }
    }, width > 1080);
}

async function open(page) {
    await tab.goto(origin + page, { waitUntil: "load" });
    // A colour that still changes is not the one that stays.
    await tab.addStyleTag({ content: "* { transition: none !important; animation: none !important }" });
    const diagrams = (await tab.$$("[data-diagram]")).length;
    if (diagrams > 0) {
        await drawn("[data-diagram='']");
    }
    return diagrams;
}

const drawn = (missing) => tab.waitForSelector(missing, { hidden: true })
    .catch(() => problem(`${tab.url()}: a diagram is not drawn`));

/** Chooses the light or the dark mode as a reader does, by the menu. */
async function choose(mode) {
    const hasDiagrams = await tab.evaluate((theme) => {
        document.getElementById(`mdbook-theme-${theme}`).click();
        return document.querySelector("[data-diagram]") !== null;
    }, MODES[mode]);
    if (hasDiagrams) {
        await drawn(`[data-diagram]:not([data-diagram=${mode}])`);
    }
}

let pairs = 0;
async function expectReadable(where) {
    const faint = await tab.evaluate(tooFaint);
    faint.found.forEach((text) => problem(`${where}: ${text}`));
    pairs += faint.pairs;
}

async function expectFits(where, options) {
    (await tab.evaluate(doesNotFit, options)).forEach((text) => problem(`${where}: ${text}`));
}

// Both checks find what they look for.
await size(PHONE);
await open("/index.html");
await tab.evaluate(() => {
    document.querySelector("main h1").outerHTML += "<div style='width: 900px; color: #888'>planted</div>";
    document.querySelector("td:nth-child(2)").style.marginLeft = "400px";
    document.querySelector("table").style.width = "900px";
    document.querySelector(".table-wrapper").style.background = "none";
});
const planted = [await tab.evaluate(doesNotFit, { isPhone: true }), (await tab.evaluate(tooFaint)).found].flat();
for (const sign of ["reaches", "second column", "no shadow", "does not fit", "contrast 3."]) {
    expect(planted.some((text) => text.includes(sign)), `the checks do not find a planted fault: ${sign}`);
}

const seen = new Map();
let diagrams = 0;
let mode = "light";
await choose(mode);
for (const page of pages) {
    await size(PHONE);
    diagrams += await open(page);
    seen.set(page, await tab.evaluate(content));
    expect(seen.get(page).links.includes(repository), `${page} has no link to ${repository}`);
    seen.get(page).small.forEach((text) => problem(`${page}: ${text} cannot be opened large`));
    for (const width of WIDTHS) {
        await resize(width);
        await expectFits(`${page} in ${width} px`, { isPhone: width === PHONE });
        await expectReadable(`${page} in ${width} px, ${mode}`);
    }
    // The next page begins with this mode.
    mode = mode === "light" ? "dark" : "light";
    await choose(mode);
    for (const width of WIDTHS.toReversed()) {
        await resize(width);
        await expectReadable(`${page} in ${width} px, ${mode}`);
    }
    await resize(PAPER);
    await tab.emulateMediaType("print");
    await expectFits(`${page} printed`, { isPrinted: true });
    await expectReadable(`${page} printed, ${mode}`);
    await tab.emulateMediaType();
}

let links = 0;
for (const [page, content] of seen) {
    for (const link of new Set(content.links)) {
        if (link.startsWith("blob:")) {
            continue; // A diagram that can be opened large.
        }
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

// Without scripts a page has its text, its titles of columns, and the colours of the reader's system.
await tab.setJavaScriptEnabled(false);
for (const page of ["/index.html", "/docs/guide/how-it-works.html", "/docs/evidence/performance.html"]) {
    for (const value of Object.keys(MODES)) {
        await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
        for (const width of WIDTHS) {
            await size(width);
            await tab.goto(origin + page, { waitUntil: "load" });
            await expectFits(`${page} without scripts in ${width} px`, { isPhone: width === PHONE });
            await expectReadable(`${page} without scripts in ${width} px, ${value}`);
        }
    }
    expect(await tab.$("main h1"), `${page} is empty without scripts`);
}
await tab.setJavaScriptEnabled(true);

// The search.
async function search(word) {
    await tab.$eval("#mdbook-searchbar", (bar, word) => {
        bar.value = word;
        bar.dispatchEvent(new KeyboardEvent("keyup"));
    }, word);
    const done = (word) => document.querySelector("#mdbook-searchresults-header").textContent.includes(`'${word}'`);
    await tab.waitForFunction(done, {}, word).catch(() => problem(`the search for ${word} does not end`));
    return tab.$$eval("#mdbook-searchresults a", (results) => results.map((result) => new URL(result.href).pathname));
}
await tab.emulateMediaFeatures([]);
await size(PHONE);
await open("/index.html");
await tab.click("#mdbook-search-toggle");
for (const mode of Object.keys(MODES)) {
    await choose(mode);
    await search(`idempotent ${mode}`);
    await expectReadable(`search results, ${mode}`);
    await picture(`search-${mode}`);
}
await expectFits("search results", { isPhone: true });
let hasRecord = false;
for (const [page, searched] of [["docs/guide/batches.md", ["Kinesis"]], ...Object.entries(words)]) {
    const goal = `/${page.replace(/\bREADME\.md/, "index.html").replace(/\.md.*/, ".html")}`;
    for (const word of searched) {
        const results = await search(word);
        const records = results.map((path) => path.startsWith("/docs/design/"));
        const isLast = !records.includes(true) || !records.slice(records.indexOf(true)).includes(false);
        expect(isLast, `the search for ${word} shows a decision record before another page`);
        hasRecord ||= records.includes(true);
        expect(results.slice(0, 3).includes(goal), `the search for ${word} finds ${results.slice(0, 3)}, and not ${goal}`);
        expect(results[0]?.startsWith("/docs/guide/") || !page.startsWith("docs/guide/"), `the search for ${word} finds ${results[0]} first`);
    }
}
expect(hasRecord, "no search shows a decision record, so that its place is not seen");

// The list of chapters on a phone.
const isDark = () => tab.evaluate(() => getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).every((colour) => colour < 80));
for (const mode of Object.keys(MODES)) {
    await open("/docs/guide/how-it-works.html");
    await choose(mode);
    expect((await isDark()) === (mode === "dark"), `the mode ${mode} has the wrong ground`);
    await tab.click("#mdbook-sidebar-toggle");
    await expectReadable(`the list of chapters, ${mode}`);
    await picture(`chapters-${mode}`);
}

// The diagrams and the pictures follow the choice.
const HOW = "/docs/guide/how-it-works.html";
await open(HOW);
await choose("light");
const colour = () => tab.$eval("[data-diagram] rect", (shape) => getComputedStyle(shape).fill);
const light = await colour();
await choose("dark");
expect((await colour()) !== light, "the diagrams keep the colours of the light mode");

const SHOWN = {
    front: "/index.html", diagram: HOW, table: "/docs/guide/comparison.html", pictures: "/docs/evidence/performance.html",
    code: "/docs/guide/stores.html", record: "/docs/design/0025-http.html",
};
for (const [name, page] of Object.entries(SHOWN)) {
    for (const width of WIDTHS) {
        await size(width);
        await open(page);
        for (const mode of Object.keys(MODES)) {
            await choose(mode);
            await tab.evaluate(() => document.querySelector("main :is([data-diagram], table, img, pre)")?.scrollIntoView());
            await picture(`${name}-${width}-${mode}`);
        }
    }
}

await open(SHOWN.pictures);
const drawnIn = async (mode) => {
    await choose(mode);
    return (await tab.$("main img")).screenshot({ encoding: "base64" });
};
expect((await drawnIn("light")) !== (await drawnIn("dark")), "a picture is the same in both modes");

await open("/index.html");
expect(await isDark(), "the chosen mode is gone on the next page");
await tab.evaluate(() => localStorage.clear());
await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await open("/index.html");
expect(await isDark(), "a reader whose system is dark gets a light page");

await browser.close();
server.close();
problems.forEach((text) => console.log(text));
console.log(`${pages.length} pages, ${links} links, ${diagrams} diagrams, ${pairs} pairs of colours, ${problems.length} problems; pictures in ${pictures}`);
process.exit(problems.length > 0 || links === 0 || diagrams === 0 ? 1 : 0);
