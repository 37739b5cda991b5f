"""The prose of a page in Markdown: its sentences, the longest ones, and words that hide the actor.

    python3 tests/lint/prose.py README.md docs/*.md     # findings and figures of each page

Code, link targets and figures are no prose. A cell of a table, an item of a list and a heading are prose of their own.
"""
import dataclasses
import re
import sys

SENTENCE_MAX = 35  # words

# Programs have no voice: they report, return, print, reject. An actor that is "nobody" hides the rule.
WORDS = re.compile(r"\b(tells?|telling|told|says?|saying|said|hears?|heard|nobody|whoever)\b", re.I)

CODE = re.compile(r"(`+)(?:(?!\1).)+\1")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`\[]*[A-Z0-9_`\x00])")
SHORTENED = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|approx)\.")


@dataclasses.dataclass
class Passage:
    """Words that stand together, with the line they begin at; code in them is one word."""
    line: int
    text: str


def plain(text):
    """Without markup: inline code becomes one word, a link its text."""
    text = CODE.sub("\x00", text)
    text = LINK.sub(r"\1", text)
    text = re.sub(r"<[^>]+>", " ", text)
    return SHORTENED.sub(r"\1", text.replace("**", ""))


def passages(markdown):
    """The passages of a page: paragraphs, items, headings and cells."""
    found, fence, is_open = [], None, False
    for number, line in enumerate(markdown.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence or mark:
            fence = (None if mark and mark.group(1).startswith(fence) else fence) if fence else mark.group(1)
            is_open = False
        elif not line.strip() or re.match(r"\s*[|: -]+$", line):
            is_open = False
        elif re.match(r" {4,}\S", line) and not is_open:  # indented code
            continue
        elif line.lstrip().startswith("|"):
            is_open = False
            cells = re.split(r"(?<!\\)\|", plain(line.strip().strip("|")))
            found += [Passage(number, cell.strip()) for cell in cells if cell.strip()]
        elif re.match(r"\s*(#+|[-*+]|\d+\.)\s", line):
            found.append(Passage(number, re.sub(r"^\s*(#+|[-*+]|\d+\.)\s+", "", line)))
            is_open = not line.lstrip().startswith("#")
        elif is_open:
            found[-1].text += " " + line.strip()
        else:
            found.append(Passage(number, line.strip()))
            is_open = True
    return [Passage(passage.line, plain(passage.text)) for passage in found]


def words_of(text):
    return re.findall(r"[A-Za-z\x00][\w'\x00/-]*", text)


def sentences(markdown):
    """The sentences of a page, as passages. A colon or a semicolon ends none."""
    return [Passage(passage.line, sentence) for passage in passages(markdown) for sentence in END.split(passage.text) if sentence]


def findings(markdown):
    """(line, what is wrong) of each sentence that is too long, and each word that has no place."""
    found = []
    for sentence in sentences(markdown):
        n_words = len(words_of(sentence.text))
        if n_words > SENTENCE_MAX:
            found.append((sentence.line, f"a sentence of {n_words} words, {SENTENCE_MAX} at most: {sentence.text[:60]} ..."))
        found += [(sentence.line, f"'{word}': name the actor and what it does (reports, returns, prints, rejects)")
                  for word in WORDS.findall(sentence.text)]
    return [(line, text.replace("\x00", "`...`")) for line, text in found]


def figures(markdown):
    """What a page is like: words, words of a sentence (mean, longest), and of 1,000 words "you" and WORDS."""
    lengths = [len(words_of(sentence.text)) for sentence in sentences(markdown)]
    text = " ".join(passage.text for passage in passages(markdown))
    n_words = max(1, len(words_of(text)))
    n_you = len(re.findall(r"\byou(r|rs|rself)?\b", text, re.I))
    return (f"{n_words} words, {sum(lengths) / max(1, len(lengths)):.0f} in a sentence, {max(lengths, default=0)} in the longest; "
            f"of 1,000: you {1000 * n_you / n_words:.1f}, word list {1000 * len(WORDS.findall(text)) / n_words:.1f}")


def main():
    n_found = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            markdown = file.read()
        for line, text in findings(markdown):
            print(f"{name}:{line}: {text}")
            n_found += 1
        print(f"{name}: {figures(markdown)}")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
