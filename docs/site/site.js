// Draws the diagrams, in the colours of the theme, and again when the reader chooses another theme.
(() => {
    const diagrams = [...document.querySelectorAll("code.language-mermaid")].map((code) => {
        const picture = document.createElement("div");
        picture.dataset.diagram = "";
        const text = code.textContent;
        // Until it is drawn, the picture is its text.
        const block = code.parentElement;
        block.replaceWith(picture);
        picture.append(block);
        return { picture, text };
    });
    if (diagrams.length === 0) {
        return;
    }

    const dark = () => ["ayu", "coal", "navy"].some((theme) => document.documentElement.classList.contains(theme));

    let drawn = 0;
    async function draw() {
        const mode = dark() ? "dark" : "light";
        mermaid.initialize({ startOnLoad: false, theme: mode === "dark" ? "dark" : "default", fontFamily: "Open Sans, sans-serif" });
        for (const { picture, text } of diagrams) {
            drawn += 1;
            picture.innerHTML = `<a>${(await mermaid.render(`diagram-${drawn}`, text)).svg}</a>`;
            // The site's test waits for it.
            picture.dataset.diagram = mode;
            const [link] = picture.children;
            const [svg] = link.children;
            // On a phone the words would be too small: there it scrolls.
            svg.style.minWidth = `${Math.min(parseFloat(svg.style.maxWidth), 620)}px`;
            // A click opens it alone, on the ground that it was drawn for.
            const alone = svg.cloneNode(true);
            alone.style = `background-color: ${getComputedStyle(document.documentElement).backgroundColor}`;
            link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(alone)], { type: "image/svg+xml" }));
        }
    }

    // It is large, so only a page with a diagram loads it.
    const script = document.createElement("script");
    script.src = `${path_to_root}mermaid.js`;
    script.onload = () => {
        let was = dark();
        let drawing = draw();
        new MutationObserver(() => {
            if (dark() !== was) {
                was = dark();
                drawing = drawing.then(draw);
            }
        }).observe(document.documentElement, { attributeFilter: ["class"] });
    };
    document.head.append(script);
})();
