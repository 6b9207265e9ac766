"""Lays out the documents of the repository as pages of the site, or follows the links of the built site.

Usage: lay_out.py pages PAGES    lay_out.py links HTML
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*(```|~~~)")
# A page is a document of one of these; any other file that a page names is shown on a page of its own.
DOCUMENTS = ["*.md", "docs/**/*.md", "scenarios/README.md"]
LANGUAGES = {".rs": "rust", ".toml": "toml", ".h": "c", ".c": "c", ".sh": "sh", ".json": "json"}
BYTES_SHOWN = 200_000


def tracked():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [pathlib.PurePosixPath(name) for name in names.split("\0") if name]


class Pages:
    def __init__(self, out):
        self.out = out
        self.files = tracked()
        self.folders = {parent for file in self.files for parent in file.parents}
        self.documents = {file for file in self.files if any(file.match(form) for form in DOCUMENTS)}
        self.documents = {file for file in self.documents if len(file.parts) == 1 or file.parts[0] in ("docs", "scenarios")}
        # The files and folders that pages name, each with its page.
        self.shown = {}

    def lay_out(self):
        for document in sorted(self.documents):
            self.write(self.page(document), self.rewritten(document))
        while missing := [file for file, is_written in self.shown.items() if not is_written]:
            for file in missing:
                self.shown[file] = True
                self.write(self.page(file), self.listing(file) if file in self.folders else self.text(file))
        for file in self.files:
            if file.suffix in (".png", ".svg") and file.parts[0] == "docs":
                (self.out / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, self.out / file)

    def write(self, page, text):
        (self.out / page).parent.mkdir(parents=True, exist_ok=True)
        (self.out / page).write_text(text)

    def page(self, file):
        """The page of a file. A file that pages only name is below `files`, where navigation has nothing."""
        if file in self.documents:
            return pathlib.PurePosixPath("index.md") if str(file) == "README.md" else file
        if file in self.folders:
            return "files" / file / "index.md"
        return pathlib.PurePosixPath("files") / (str(file) + ".md")

    def rewritten(self, document):
        lines, fenced = [], False
        for line in (ROOT / document).read_text().splitlines():
            fenced ^= bool(FENCE.match(line))
            lines.append(line if fenced else LINK.sub(lambda link: self.link(document, link), line))
        return "\n".join(lines) + "\n"

    def link(self, document, link):
        url, _, anchor = link[2].partition("#")
        if not url or ":" in url:
            return link[0]
        target = pathlib.PurePosixPath(os.path.normpath(document.parent / urllib.parse.unquote(url)))
        if target.suffix in (".png", ".svg") and target.parts[0] == "docs":
            page = target
        elif target in self.documents or target in self.files or target in self.folders:
            if target not in self.documents:
                self.shown.setdefault(target, False)
            page = self.page(target)
        else:
            sys.exit(f"{document}: there is no {target}")
        way = os.path.relpath(page, self.page(document).parent)
        return link[1] + way + ("#" + anchor if anchor else "") + link[3]

    def text(self, file):
        text = (ROOT / file).read_text(errors="replace")
        if len(text) > BYTES_SHOWN:
            text = text[:BYTES_SHOWN] + "\n(the rest is left out here)\n"
        fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
        return f"# {file}\n\n{fence}{LANGUAGES.get(file.suffix, 'text')}\n{text}\n{fence}\n"

    def listing(self, folder):
        below = sorted({folder / file.relative_to(folder).parts[0] for file in self.files if folder in file.parents})
        lines = []
        for entry in below:
            if entry not in self.documents:
                self.shown.setdefault(entry, False)
            way = os.path.relpath(self.page(entry), self.page(folder).parent)
            lines.append(f"- [{entry.name}{'/' if entry in self.folders else ''}]({way})")
        return f"# {folder}\n\n" + "\n".join(lines) + "\n"


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(value for name in ("id", "name") if (value := attributes.get(name)))
        self.targets += [value for name in ("href", "src") if (value := attributes.get(name))]


def follow(html):
    """Follows each link inside the site. Addresses of others are counted, and not asked for."""
    pages = {}
    for path in html.rglob("*.html"):
        pages[path] = Links()
        pages[path].feed(path.read_text())
    broken, inside, outside = [], 0, 0
    for path, page in pages.items():
        for target in page.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                outside += 1
                continue
            inside += 1
            to = path if not url.path else (path.parent / urllib.parse.unquote(url.path)).resolve()
            # The page for what is not found has addresses from the root.
            if url.path.startswith("/"):
                to = html / urllib.parse.unquote(url.path[1:])
            to = to / "index.html" if to.is_dir() else to
            if not to.exists() or (url.fragment and to in pages and url.fragment not in pages[to].anchors | {"__codelineno"}):
                broken.append(f"{path.relative_to(html)}: {target}")
    print(f"{len(pages)} pages; {inside} links inside the site, {len(broken)} of them broken; {outside} to other sites")
    if broken:
        sys.exit("\n".join(broken[:50]))


if __name__ == "__main__":
    if sys.argv[1] == "pages":
        Pages(pathlib.Path(sys.argv[2])).lay_out()
    else:
        follow(pathlib.Path(sys.argv[2]).resolve())
