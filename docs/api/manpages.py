#!/usr/bin/python3
"""Turns the public header into man pages: manpages.py HEADER VERSION EXAMPLES OUT.

A page for each block of the header, a comment and the declarations under it up to the next empty line;
further names of the block become pages that lead to it. What the header says is said once, there: the
comment is the description, its first clause the line in the index, the comments behind members their list,
"--- Title ---" begins a section, whose introduction is in each of its pages. A program of EXAMPLES
is printed in the page whose name it has. A declaration without a comment is an error.
The language of the pages is mdoc(7), so that mandoc can check them and make HTML with links of them.
"""
import dataclasses
import datetime
import os
import pathlib
import re
import sys

NOT_A_SUBJECT = {"HOROVOD_API", "HOROVOD_MESSAGE_MAX", "HOROVOD_HOROVOD_H"}
# Programs that are named otherwise than the page they belong to.
SHOWN_IN = {"process_sets": "horovod_add_process_set", "grouped_allreduce": "horovod_grouped_allreduce_async",
            "adasum": "horovod_reduce_op_t", "uneven_sets": "horovod_remove_process_set"}


@dataclasses.dataclass
class Declaration:
    """A function, type or macro: code is without comments, note is a comment of its own within the block."""
    name: str
    kind: str
    code: str
    line: int
    note: str = ""
    members: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Page:
    """A block of the header."""
    section: int
    text: str
    declarations: list

    @property
    def name(self):
        """The name that the others extend, else the first."""
        names = [item.name for item in self.declarations]
        shortest = min(names, key=len)
        return shortest if all(name.startswith(shortest) for name in names) else names[0]

    @property
    def summary(self):
        """The first clause of the text, so far as the index has room."""
        text = " ".join(self.text.replace("`", "").split())
        clause = re.split(r"(?<=\w\w)[.:;](?:\s|$)", text, maxsplit=1)[0].rstrip(".")
        return clause if len(clause) <= 110 else re.split(r",\s(?!.*,\s)", clause[:110], maxsplit=1)[0]


@dataclasses.dataclass
class Header:
    """overview: the first comment; sections: [title, introduction]."""
    overview: str = ""
    sections: list = dataclasses.field(default_factory=lambda: [["Types", ""]])
    pages: list = dataclasses.field(default_factory=list)


def stop(header, line, what):
    sys.exit(f"{header}:{line}: {what}")


# --- Reading ----------------------------------------------------------------------------------------------------

def uncomment(text):
    """What a comment says, without its frame."""
    text = re.sub(r"^/\*+ ?|\s*\*/$", "", text.strip())
    return re.sub(r"(?m)^ ?\* ?", "", text).strip("\n")


def without_comments(code):
    return re.sub(r"\s*/\*.*?\*/", "", code, flags=re.S)


def chunks(lines):
    """(kind, first line, text) of comments, directives, declarations and empty lines."""
    at = 0
    while at < len(lines):
        begin, line = at, lines[at]
        at += 1
        if not line.strip():
            kind = "empty"
        elif line.startswith("/*"):
            kind = "comment"
            while "*/" not in lines[at - 1]:
                at += 1
        elif line.startswith("#"):
            kind = "directive"
            while lines[at - 1].endswith("\\"):
                at += 1
        elif line.startswith(('extern "C"', "}")):
            kind = "directive"
        else:
            kind = "declaration"
            while not is_complete("\n".join(lines[begin:at])):
                at += 1
        yield kind, begin + 1, "\n".join(lines[begin:at])


def is_complete(code):
    code = without_comments(code)
    return code.rstrip().endswith(";") and code.count("{") == code.count("}")


def members_of(code):
    """(declaration, comment) of each member of a struct or enum; the comment stands behind or above it."""
    body = code[code.index("{") + 1:code.rindex("}")]
    found = re.findall(r"(?:/\*(.*?)\*/\s*)?([^;,/{}]+?)\s*[;,](?:[ \t]*/\*(.*?)\*/)?(?=\s|$)", body, re.S)
    return [(" ".join(declared.split()), " ".join((behind or above).split())) for above, declared, behind in found]


def declaration(kind, line, code, where):
    if kind == "directive":
        found = re.match(r"#define (\w+)(\([^)]*\))?", code)
        if not found or found[1] in NOT_A_SUBJECT:
            return None
        return Declaration(found[1], "macro", found[0].replace("#define ", ""), line)
    plain = " ".join(without_comments(code).split())
    if plain.startswith("typedef"):
        found = re.match(r"typedef [^{(]*\(\*(\w+)\)\(", plain) or re.search(r"(\w+);$", plain)  # of a function, or of a value
        kept = without_comments(code).replace("\n\n", "\n")
        return Declaration(found[1], "type", kept, line, members=members_of(code) if "{" in code else [])
    found = re.fullmatch(r"HOROVOD_API (.*?)(\w+)\((.*)\);", plain)
    if not found:
        stop(where, line, f"neither a type nor a function with HOROVOD_API: {plain[:60]}")
    return Declaration(found[2], "function", plain.removeprefix("HOROVOD_API "), line)


def read(path):
    """The header, taken apart."""
    header, text, page = Header(), None, None
    items = list(chunks(path.read_text(encoding="utf-8").split("\n")))
    for number, (kind, line, code) in enumerate(items):
        if kind == "empty":
            page = text = None
        elif kind == "comment":
            title = re.match(r"/\* -+ (.*?) -+ \*/", code)
            if title:
                header.sections.append([title[1], ""])
            elif not header.overview:
                header.overview = uncomment(code)
            elif not page and number + 1 < len(items) and items[number + 1][0] == "empty":
                header.sections[-1][1] = uncomment(code)
            else:
                text = uncomment(code)
        else:
            item = declaration(kind, line, code, path)
            if not item:
                continue
            if page:
                item.note, text = text or "", None
                page.declarations.append(item)
            elif text:
                page, text = Page(len(header.sections) - 1, text, [item]), None
                header.pages.append(page)
            else:
                stop(path, line, f"{item.name} has no comment")
    return header


# --- Writing ----------------------------------------------------------------------------------------------------

class Writer:
    """Pages in mdoc; knows which names have a page, and which are constants."""

    def __init__(self, header, version, examples, date):
        self.header, self.version, self.date = header, version, date
        self.names = {item.name for page in header.pages for item in page.declarations} | {"horovod"}
        self.constants = {re.split(r"\W", member)[0]: page.name for page in header.pages
                          for item in page.declarations for member, _ in item.members if member.startswith("HOROVOD_")}
        self.examples = {SHOWN_IN.get(path.stem, f"horovod_{path.stem}"): path for path in sorted(examples.glob("*.c"))}
        self.here = ""

    def word(self, token):
        """A macro line for a word with a name in it; None for any other word."""
        found = re.fullmatch(r"((?:sizeof)?[(\[\"`]*)((?:horovod|HOROVOD)_\w+|(?<=`)\w+)(.*)", token)
        if not found:
            return None
        before, name, behind = found[1].replace("`", ""), found[2], found[3].replace("`", "")
        behind = behind.removeprefix("()")
        if name == self.here:
            macro = f"Nm {name}"
        elif name in self.names:
            macro = f"Xr {name} 3"
        elif name in self.constants or name in NOT_A_SUBJECT:
            macro = f"Dv {name}"
        elif name.startswith("HOROVOD_"):
            macro = f"Ev {name}"
        elif "`" in token:
            macro = f"Fa {name}"
        else:
            return None
        before, behind = before.replace('"', "\\(dq"), behind.replace('"', "\\(dq")
        if behind:
            macro += " " + " ".join(behind) if re.fullmatch(r"[.,;:)]+", behind) else f" Ns {behind}"
        return f".Pf {before} {macro}" if before else f".{macro}"

    def sentence(self, text):
        lines, words = [], []
        for token in text.split():
            macro = self.word(token)
            if macro:
                lines += [guarded(" ".join(words))] if words else []
                lines.append(macro)
                words = []
            else:
                words.append(token.replace("`", ""))
        return lines + ([guarded(" ".join(words))] if words else [])

    def flow(self, text):
        return [line for part in re.split(r"(?<=[.?!])\s+(?=[A-Z0-9*])", " ".join(text.split()))
                for line in self.sentence(part)]

    def prose(self, text):
        """Paragraphs, lists of "- " and code, which is indented by four."""
        lines = []
        for part in re.split(r"\n\s*\n|\n(?=- )", text):
            if part.startswith("    "):
                lines += literal(re.sub(r"(?m)^    ", "", part))
            elif part.startswith("- "):
                lines += [".Bl -bullet", ".It", *self.flow(part[2:]), ".El"]
            else:
                before, _, rest = part.partition("\n- ")
                lines += [".Pp", *self.flow(before)]
                lines += self.prose("- " + rest) if rest else []
        joined = "\n".join(lines).replace(".El\n.Bl -bullet\n", "")
        return joined.split("\n")

    def head(self, name, names, summary):
        described = [f".Nm {item} ," for item in names[:-1]] + [f".Nm {names[-1]}"]
        return [f".Dd {self.date}", f".Dt {name.upper()} 3", f".Os Horovod {self.version}", ".Sh NAME", *described,
                ".Nd " + guarded(summary).replace('"', "\\(dq")]

    def page(self, page):
        names = [item.name for item in page.declarations]
        self.here = page.name if len(names) == 1 else ""
        title, intro = self.header.sections[page.section]
        lines = self.head(page.name, names, page.summary) + [".Sh SYNOPSIS", ".In horovod/horovod.h"]
        for item in page.declarations:
            lines += synopsis(item)
        lines += [".Sh DESCRIPTION", *self.prose(page.text)[1:]]
        for item in page.declarations:
            if item.note:
                lines += [".Pp", f".Nm {item.name} :", *self.flow(item.note)]
            lines += self.members(item)
        if intro:
            lines += [f".Ss {title.split(':')[0]}", *self.prose(intro)[1:]]
        if page.name in self.examples:
            lines += [".Sh EXAMPLES", *literal(self.examples[page.name].read_text(encoding="utf-8").rstrip())]
        return lines + [".Sh SEE ALSO", *self.also(page)]

    def members(self, item):
        lines = [".Bl -tag -width Ds"] if item.members else []
        for declared, text in item.members:
            macro = "Dv" if declared.startswith("HOROVOD_") else "Vt"
            lines += [f".It {macro} \"{declared}\"", *self.flow(text)]
        return lines + ([".El"] if item.members else [])

    def also(self, page):
        """The types in the declarations, and the other pages of the section."""
        code = " ".join(item.code for item in page.declarations)
        names = {name for name in self.names if re.search(rf"\b{name}\b", code)}
        names |= {other.name for other in self.header.pages if other.section == page.section} | {"horovod"}
        kept = sorted(names - {item.name for item in page.declarations}, key=str.lower)
        return [f".Xr {name} 3 ," for name in kept[:-1]] + [f".Xr {kept[-1]} 3"]

    def overview(self):
        """The page horovod(3): the rules for all, and the index."""
        self.here = ""
        first, _, rest = self.header.overview.partition("\n")
        lines = self.head("horovod", ["horovod"], first.partition(": ")[2].rstrip("."))
        lines += [".Sh SYNOPSIS", ".In horovod/horovod.h", ".Pp", "cc program.c $(pkg-config --cflags --libs horovod)",
                  ".Sh DESCRIPTION", *self.prose(rest.strip("\n"))[1:]]
        for number, (title, _) in enumerate(self.header.sections):
            pages = [page for page in self.header.pages if page.section == number]
            lines += [f".Ss {title.split(':')[0]}", ".Bl -tag -width Ds"] if pages else []
            for page in pages:
                names = [item.name for item in page.declarations]
                lines += [".It " + " , ".join(f"Xr {name} 3" for name in names), guarded(page.summary)]
            lines += [".El"] if pages else []
        return lines + [".Sh SEE ALSO", ".Xr mpirun 1"]


def guarded(text):
    """Text that begins no macro and ends no escape."""
    text = text.replace("\\", "\\e")
    return "\\&" + text if text.startswith((".", "'")) else text


def literal(text):
    return [".Bd -literal -offset indent", *(guarded(line) for line in text.split("\n")), ".Ed"]


def synopsis(item):
    if item.kind != "function":
        return literal(item.code)
    result, name, parameters = re.fullmatch(r"(.*?)(\w+)\((.*)\);", item.code).groups()
    lines = [f".Ft {result.strip()}", f".Fo {name}"]
    lines += [f'.Fa "{parameter.strip()}"' for parameter in parameters.split(",")]
    return lines + [".Fc"]


def main():
    source, version, examples, out = sys.argv[1:]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or pathlib.Path(source).stat().st_mtime)
    date = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    header = read(pathlib.Path(source))
    writer = Writer(header, version, pathlib.Path(examples), f"{date:%B} {date.day}, {date.year}")
    unknown = set(writer.examples) - {page.name for page in header.pages}
    if unknown:
        sys.exit(f"{examples}: a program for {', '.join(sorted(unknown))}, which is no page")
    folder = pathlib.Path(out) / "man3"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    pages = {"horovod": writer.overview()}
    for page in header.pages:
        pages[page.name] = writer.page(page)
        for item in page.declarations:
            pages.setdefault(item.name, [f".so man3/{page.name}.3"])
    for name, lines in pages.items():
        (folder / f"{name}.3").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
