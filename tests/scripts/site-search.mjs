// Extends the search of the site.
//
//     node tests/scripts/site-search.mjs <folder of the site>
//
// It finds pages by the words of docs/site/search.json too, and shows the pages in the order of RANKS.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { runInNewContext } from "node:vm";

const site = resolve(process.argv[2]);
const find = (start) => resolve(site, readdirSync(site).find((file) => file.startsWith(start)));

// What the score of a page is multiplied by: the first entry that its path begins with counts. A decision record is last.
const RANKS = Object.entries({
    "docs/design/": 1e-4, "docs/guide/": 1, "index.html": 1, "docs/reference/": 0.9, "docs/index.html": 0.7, "docs/evidence/": 0.5, "deploy/": 0.5, "": 0.2,
});

const elasticlunr = createRequire(import.meta.url)(find("elasticlunr-"));
const file = find("searchindex-");
const window = { search: {} };
runInNewContext(readFileSync(file, "utf8"), { window });
const { search } = window;
const index = elasticlunr.Index.load(search.index);

const sections = search.doc_urls;
for (const [page, words] of Object.entries(JSON.parse(readFileSync("docs/site/search.json", "utf8")))) {
    const url = page.replace(/\bREADME\.md\b/, "index.html").replace(/\.md\b/, ".html");
    const section = sections.findIndex((known) => known === url || (!url.includes("#") && known.startsWith(`${url}#`)));
    if (section < 0) {
        console.error(`site-search.mjs: docs/site/search.json names ${page}, which the site does not have`);
        process.exit(1);
    }
    for (const word of index.pipeline.run(elasticlunr.tokenizer(words.join(" ")))) {
        // Not in the text, which the results show. It counts twice as much as a word of a title.
        index.index.title.addToken(word, { ref: String(section), tf: 2 });
    }
}

// The score of a field is divided by the square root of its length, or by 1 if that is 0.
for (const [section, lengths] of Object.entries(index.documentStore.docInfo)) {
    const [, factor] = RANKS.find(([start]) => sections[section].startsWith(start));
    for (const field of Object.keys(lengths)) {
        lengths[field] = Math.round(Math.max(lengths[field], 1) / factor ** 2);
    }
}
writeFileSync(file, `window.search = Object.assign(window.search, ${JSON.stringify({ ...search, index })});\n`);
