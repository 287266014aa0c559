// Finishes the pages that mdBook has written.
//
//     node tests/scripts/site-finish.mjs <folder of the site>
//
// Each cell of a table gets the title of its column, which a phone shows beside it, and keeps a number with its unit. Of the themes one
// light and one dark remain.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const [site] = process.argv.slice(2);

/** Writes the title of its column into each cell of the body of a table. */
function labelled(table) {
    const titles = [...table.matchAll(/<th(?:\s[^>]*)?>(.*?)<\/th>/gs)]
        .map((title) => title[1].replace(/<[^>]*>/g, "").replaceAll('"', "&quot;").trim());
    const classes = titles.length > 2 ? ' class="titled"' : "";
    return table
        .replace("<table>", `<table${classes}>`)
        .replace(/<tr>.*?<\/tr>/gs, (row) => {
            let column = -1;
            return row
                .replace(/<code>.*?<\/code>|(\d) (?=(?:µs|ms|s|KB|MB|KiB|MiB|×)(?!\w))/gs, (found, digit) => (digit ? `${digit}&nbsp;` : found))
                .replace(/<td/g, () => `<td data-title="${titles[(column += 1)] ?? ""}"`);
        });
}

const THEMES = /\s*<li role="none"><button [^>]*id="mdbook-theme-(?:rust|coal|ayu)">\w+<\/button><\/li>/g;

for (const file of readdirSync(site, { recursive: true })) {
    // toc.html is a frame without themes.
    if (!file.endsWith(".html") || file === "toc.html") {
        continue;
    }
    const page = readFileSync(`${site}/${file}`, "utf8");
    if (page.match(THEMES)?.length !== 3) {
        console.error(`site-finish.mjs: ${file} has other themes than expected`);
        process.exit(1);
    }
    writeFileSync(`${site}/${file}`, page.replace(THEMES, "").replace(">Navy<", ">Dark<").replace(/<table>.*?<\/table>/gs, labelled));
}
