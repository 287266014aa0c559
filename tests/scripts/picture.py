"""What the pictures of docs/assets have in common. benches/chart.py and tests/scripts/dashboard.py draw them.

A picture has light and dark colours. A browser takes those of the page that shows the picture, and a program that knows no dark mode
takes the light ones.
"""

from xml.sax.saxutils import escape

# The greys of areas, of lines and of words, and what each becomes in a dark picture. The other colours are the same in both.
PAPER, CARD = "#f4f4f4", "#fff"
EDGE, GRID = "#d5d5d5", "#e4e4e4"
INK, SOFT, FAINT = "#333", "#555", "#6b6b6b"
DARK = {
    "fill": {PAPER: "#161923", CARD: "#1f2333", INK: "#dcdde8", SOFT: "#c0c1d2", FAINT: "#9d9eb5"},
    "stroke": {EDGE: "#454a63", GRID: "#343950"},
}


def text(x, y, words, size=12, anchor="start", fill=INK, weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def card(x, y, width, height):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{CARD}" stroke="{EDGE}"/>'


def svg(width, height, title, parts):
    """Returns the file of a picture."""
    dark = " ".join(f'[{kind}="{light}"] {{ {kind}: {other} }}' for kind, colours in DARK.items() for light, other in colours.items())
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="Helvetica, Arial, sans-serif">',
        f"<title>{escape(title)}</title>",
        f"<style>:root {{ color-scheme: light dark }} @media (prefers-color-scheme: dark) {{ {dark} }}</style>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        *parts,
        "</svg>",
    ]) + "\n"
