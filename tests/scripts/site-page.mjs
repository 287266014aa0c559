// What tests/scripts/site.mjs asks of an open page. Each function runs in the page.

/** Returns what does not fit: the page never scrolls sideways, each table shows its second column, and a finger reaches each button. */
export function doesNotFit({ isPhone, isPrinted }) {
    const found = [];
    const say = (element, text) => found.push(`<${element.localName}> "${element.textContent.trim().slice(0, 40)}" ${text}`);
    const width = document.documentElement.clientWidth;
    for (const element of document.querySelectorAll("html, body, #mdbook-body-container, .page-wrapper, .page, .content, main")) {
        if (element.scrollWidth > element.clientWidth) {
            say(element, `is ${element.scrollWidth} px wide in ${element.clientWidth} px`);
        }
    }
    const scrolls = (element) => element.closest("main .table-wrapper, main pre > code, .content [data-diagram]");
    for (const element of document.querySelectorAll(".menu-bar *, .content *")) {
        const { right, width: own } = element.getBoundingClientRect();
        const inside = scrolls(element);
        if (own > 0 && right > width + 1 && (!inside || inside === element)) {
            say(element, `reaches ${Math.round(right)} px`);
        }
        if (inside === element && element.scrollWidth > element.clientWidth + 1) {
            if (isPrinted || (isPhone && element.matches(".table-wrapper"))) {
                say(element, `does not fit: ${element.scrollWidth} px in ${element.clientWidth} px`);
            }
            if (!element.matches("[data-diagram]") && !getComputedStyle(element).backgroundImage.includes("gradient")) {
                say(element, "has no shadow that shows that there is more");
            }
        }
    }
    for (const target of document.querySelectorAll(".icon-button, .menu-bar a, .mobile-nav-chapters, main a:has(> img)")) {
        const { width: wide, height } = target.getBoundingClientRect();
        if (isPhone && target.checkVisibility() && Math.min(wide, height) < 32) {
            say(target, `is small for a finger: ${Math.round(wide)} x ${Math.round(height)} px`);
        }
    }
    for (const cell of document.querySelectorAll("main tbody td:nth-child(2):not(:empty)")) {
        const { left, right } = cell.getBoundingClientRect();
        const place = cell.closest(".table-wrapper").getBoundingClientRect();
        if (Math.min(right, place.right) - Math.max(left, place.left) < Math.min(60, right - left)) {
            say(cell, `in a second column is hidden: ${Math.round(left)} to ${Math.round(right)} px`);
        }
    }
    return found;
}

/** Returns each pair of colours whose contrast is too small to read. Diagrams choose their own colours. */
export function tooFaint() {
    const channels = (colour) => {
        const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
        return colour.startsWith("color(srgb") ? [red * 255, green * 255, blue * 255, alpha] : [red, green, blue, alpha];
    };
    const over = ([red, green, blue, alpha], ground) => [red, green, blue].map((channel, at) => channel * alpha + ground[at] * (1 - alpha));
    const luminance = (colour) => {
        const [red, green, blue] = colour.map((channel) => channel / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (one, other) => {
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    };
    // What is behind an element, and how opaque it is, as the elements around it say.
    const known = new Map([[null, { ground: [255, 255, 255], opacity: 1 }]]);
    const around = (element) => {
        if (!known.has(element)) {
            const { ground, opacity } = around(element.parentElement);
            const style = getComputedStyle(element);
            known.set(element, { ground: over(channels(style.backgroundColor), ground), opacity: opacity * style.opacity });
        }
        return known.get(element);
    };

    const found = new Map();
    let pairs = 0;
    const check = (element, style, least) => {
        const { ground, opacity } = around(element);
        const [red, green, blue, alpha] = channels(style.color);
        const ratio = contrast(over([red, green, blue, alpha * opacity], ground), ground);
        pairs += 1;
        if (ratio < least) {
            const path = [element.parentElement, element].map((one) => one.localName + (one.className && `.${one.className}`)).join(" > ");
            found.set(`${path}: ${style.color} on ${ground.map(Math.round)}`, `${ratio.toFixed(2)}, "${element.textContent.trim().slice(0, 30)}"`);
        }
    };
    const isSeen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (texts.currentNode.data.trim() && !seen.has(element) && !element.closest("svg, script, style, noscript") && isSeen(element)) {
            seen.add(element);
            check(element, getComputedStyle(element), 4.5);
        }
    }
    for (const cell of document.querySelectorAll("td[data-title]")) {
        const label = getComputedStyle(cell, "::before");
        if (label.content !== "none") {
            check(cell, label, 4.5);
        }
    }
    for (const icon of [...document.querySelectorAll(".fa-svg")].filter(isSeen)) {
        check(icon, getComputedStyle(icon), 3);
    }
    return { pairs, found: [...found].map(([what, how]) => `${what}: contrast ${how}`) };
}

/** Returns what a page has: the ids that a link can lead to, its links, and the pictures that cannot be opened large. */
export function content() {
    return {
        ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
        links: [...document.querySelectorAll("a[href]")].map((link) => link.href),
        small: [...document.querySelectorAll("main img, [data-diagram] > * > svg")]
            .filter((shown) => !shown.parentElement.matches("a[href]"))
            .map((shown) => shown.outerHTML.slice(0, 80)),
    };
}
