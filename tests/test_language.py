"""Plain English in package and pages: unclear phrases are rare, and file names are correct."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import rigidblocks

PACKAGE = Path(rigidblocks.__file__).parent
ROOT = Path(__file__).parents[1]
MAX_WORDS = 30  # words of a sentence; 25 are recommended
# pattern and plain replacement
HABITS = {
    r"\b(told|tells?)\b": "reported, logged, listed, says",
    r"\bthere (is|are) (not|no|none)\b|\bis none\b": "unknown, missing, does not exist",
    r"\balone\b": "only",
    r"\b(behind|beside)\b": "after, next to, with",
    r"\b[Tt]hose (that|which|of|in|by|from)\b": "the noun",
    r"\b(comes? to|goes? on|leads? on|lets? be)\b": "the verb: converges, continues, ignores",
    r"\b[Ww]hat (is|are|was|has|it|they|there)\b": "the noun: input, request, result, value",
    r"\b[Ww]here (it|there|they|one|nothing|none|no|some|that|this|these|both)\b": "if, when",
    r"\b[Hh]ow (far|long|much|well|fast)\b": "distance, duration, amount, error",
    r"\b(knows?|asks?|asked for|lets?|is felt)\b": "have, require, allow, measure",
    r", for (it|they|there|what|its|no|that|their)\b": "because, or a new sentence",
}
START = re.compile(r"(What|Whether|Where|How|Those|Of|That|Which)\b")
FORMULAS = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)  # indented lines of docstrings
PER_THOUSAND = 25  # allowed findings per 1,000 texts (docstrings, comments, paragraphs) of a folder
ODD_NAMES = 1  # allowed number of different odd names in the package: `at` of a model at a time


def is_message(value: object) -> bool:
    """Return True if a constant is a message for users: several words without code or markup."""
    return isinstance(value, str) and value.count(" ") > 1 and not re.search(r"[{};<>=]|\n", value)


def python_texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text and True for docstrings, or False for messages and comments."""
    source = path.read_text()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings: set[ast.AST] = set()  # the walk visits a function before its docstring
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text, True
            docstrings.add(node.body[0].value)
        elif isinstance(node, ast.Constant) and node not in docstrings and is_message(node.value):
            yield node.lineno, node.value, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# "), False


def c_texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of each comment."""
    source = path.read_text()
    for match in re.finditer(r"/\*(.*?)\*/|//(.*)", source, re.DOTALL if "/*" in source else 0):
        text = (match[1] or match[2] or "").split("\n\n")[0]
        yield source.count("\n", 0, match.start()) + 1, text, False


def page_texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of each paragraph, without code and measured tables."""
    hidden = r"```.*?```|<!-- measured.*?<!-- end.*?-->"
    source = re.sub(hidden, lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.DOTALL)
    for match in re.finditer(r"(?:^(?! {4}).+\n?)+", source, re.MULTILINE):
        yield source.count("\n", 0, match.start()) + 1, match[0], False


READERS = {".py": python_texts, ".c": c_texts, ".h": c_texts, ".md": page_texts}


def findings(text: str, docstring: bool) -> Iterator[str]:
    """Yield the unclear phrases in a text with their plain replacements."""
    prose = re.sub(FORMULAS, "x.\n\n", text)
    plain = re.sub(r"`[^`]*`|\$[^$]*\$", "x", " ".join(prose.split()))
    if docstring and (match := START.match(plain)):
        yield f"begins with {match[0]}: an imperative or a noun"
    for pattern, plainly in HABITS.items():
        yield from (f"{match[0]!r}: {plainly}" for match in re.finditer(pattern, plain))
    for sentence in re.split(r"(?<=[.;:!?])\s+|\s\|\s", plain):
        if len(sentence.split()) > MAX_WORDS:
            yield f"{len(sentence.split())} words: {sentence[:60]}"


SUBPACKAGES = sorted(
    path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
)


@pytest.mark.parametrize("folder", [*SUBPACKAGES, ROOT / "docs"], ids=lambda path: path.name)
def test_number_of_unclear_phrases_in_docstrings_comments_and_pages_is_below_the_limit(folder):
    texts, found = 0, []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in READERS):
        for line, text, docstring in READERS[path.suffix](path):
            texts += 1
            found += [
                f"{path.relative_to(ROOT)}:{line}: {one}" for one in findings(text, docstring)
            ]
    assert len(found) <= max(1, texts * PER_THOUSAND / 1000), "\n".join(found)


def test_language_check_finds_unclear_phrases():
    obscure = "Of large trees the C is loops, for it does not grow; what is told goes on alone."
    assert len(list(findings(obscure, docstring=True))) == 6
    assert not list(findings("Return the joint accelerations.", docstring=True))
    assert not list(findings("The generated C loops over the bodies.", docstring=False))


BARE = re.compile(
    r"_*(of|by|with|without|at|in|on|beyond|apart|between|before|after|behind|beside|from|to|under|"
    r"over|within|through|together|along|against|alike|once|later|again|away|below|above|near|next|"
    r"kept|told|made|held|taken|found|shown|known|written|drawn|given|gone|left|lost|put|sent|felt|"
    r"sum|first|said|way|what|one|[a-z]+ed)"
)
NOUNS = {"seed", "speed", "feed", "bleed", "embed", "need", "shed", "quadruped"}


def names_a_value(node: ast.FunctionDef) -> bool:
    """Return True if a function is a property, because properties may have participle names."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_function_names_are_not_bare_participles_or_prepositions():
    names = {
        node.name: f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and BARE.fullmatch(node.name)
        if node.name.strip("_") not in NOUNS and not names_a_value(node)
    }
    assert len(names) <= ODD_NAMES, "\n".join(names.values())


SOURCE_NAME = re.compile(r"(?<![\w./{}<>*$-])(?:\w+/)*\w+\.(?:c|h|py)\b(?![\w(/-]|\.\w)")
FOREIGN = {"loader.h", "fat.h"}  # headers of macOS


def source_names(path: Path) -> Iterator[str]:
    """Yield line and name of each source file that comments or pages mention.

    Python names without a folder may be scripts of the reader and are not included.
    """
    if path.suffix in (".c", ".h"):
        text = path.read_text()
        comments = re.finditer(r"/\*.*?\*/", text, re.DOTALL)
        texts = [(text.count("\n", 0, match.start()) + 1, match[0]) for match in comments]
    else:
        texts = [(line, text) for line, text, _ in READERS[path.suffix](path)]
    for line, text in texts:
        for match in SOURCE_NAME.finditer(text):
            if path.suffix in (".c", ".h") or "/" in match[0] or not match[0].endswith(".py"):
                yield f"{path.relative_to(ROOT)}:{line}: {match[0]}"


def known_source_names() -> set[str]:
    """Return the paths of all source files and their ends, and the names of generated files."""
    folders = [PACKAGE, *(ROOT / name for name in ("benchmarks", "docs", "examples", "tests"))]
    paths = [path for folder in folders for path in folder.rglob("*.*")]
    parts = [path.relative_to(ROOT).parts for path in paths if path.suffix in (".c", ".h", ".py")]
    ends = {"/".join(part[k:]) for part in parts for k in range(len(part))}
    written = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    return ends | set(re.findall(r'["/](\w+\.[ch])"', written)) | FOREIGN


def test_source_files_that_comments_and_pages_mention_exist():
    known = known_source_names()
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    files = [*PACKAGE.rglob("*.[ch]"), *PACKAGE.rglob("*.py"), *pages]
    unknown = [path for path in files if set(SOURCE_NAME.findall(path.read_text())) - known]
    mentioned = [name for path in unknown for name in source_names(path)]
    missing = [name for name in mentioned if name.split(": ")[1] not in known]
    assert len(files) > 300
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.h",
            "/* Service (xcp_service.h)\n\n   and c/kernel/no_file.c. */\nint lost_in_code_h;\n",
        ),
        ("a.py", '"""See `c/kernel/no_file.c` and `xcp_service.h`, but `plant.py` is yours."""\n'),
        ("a.md", "See `c/kernel/no_file.c` and `xcp_service.h`.\n\n```\ngcc sources/fmi9.c\n```\n"),
    ],
)
def test_mention_of_a_missing_source_file_is_found(tmp_path, monkeypatch, name, text):
    (tmp_path / name).write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    found = {mention.split(": ")[1] for mention in source_names(tmp_path / name)}
    assert found == {"xcp_service.h", "c/kernel/no_file.c"}
