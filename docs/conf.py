"""Settings of the documentation: Markdown by MyST, docstrings by numpydoc, theme furo, formulas as MathML.

Build with ``sphinx-build -W -n docs docs/_build``: every warning is an error, every name must resolve. A page of the
site loads nothing from elsewhere. Each public name has a page of its own, written by autosummary from the lists in
``reference.md``; it ends with the pages on which the name is used.
"""

import re
from collections import Counter
from importlib.metadata import version as installed_version
from pathlib import Path

import latex2mathml.converter
from docutils import nodes
from sphinx.ext.autosummary import autosummary_toc

project = "symdebias"
author = "The symdebias developers"
copyright = author  # the name is Sphinx's
release = version = installed_version("symdebias")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"symdebias {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
# The docstrings say types, with shapes and units; in signatures the arguments and their defaults are found sooner.
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autosummary_generate = True
# Members are listed by autodoc once; a second table of them would only repeat it.
numpydoc_show_class_members = False
# Types in docstrings are phrases ("array of shape (n, p), float64"), not references.
numpydoc_xref_param_type = False

HERE = Path(__file__).parent


def listed_names():
    """Return the full names in the lists of the reference."""
    lists = re.findall(r"^```\{eval-rst\}\n(.*?)^```", (HERE / "reference.md").read_text(), re.DOTALL | re.MULTILINE)
    return [f"symdebias.{name}" for text in lists for name in re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)]


def renamed_pages():
    """Return other names of pages for those names that differ from another one by capitals only, as `fit` and `Fit`."""
    counts = Counter(name.lower() for name in listed_names())
    return {name: f"{name}-function" for name in listed_names() if counts[name.lower()] > 1 and name == name.lower()}


def forget_old_names():
    """Delete the pages that an earlier build wrote of names that are no longer listed."""
    written = {renamed_pages().get(name, name) for name in listed_names()}
    for path in (HERE / "api").glob("*.rst"):
        if path.stem not in written:
            path.unlink()


def pages_in_use():
    """Return for each public name links to the pages whose examples call it, as reST."""
    titles, examples = {}, {}
    for path in sorted(HERE.glob("*.md")):
        text = path.read_text()
        titles[path.stem] = text.split("\n", 1)[0].lstrip("# ")
        examples[path.stem] = "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", text, re.MULTILINE))
    found = {}
    for name in listed_names():
        _, _, place = name.partition(".")
        called = re.compile(rf"\bsd\.{re.escape(place)}\b|(?<![\w.]){place.rpartition('.')[2]}\(")
        pages = [page for page, example in examples.items() if called.search(example)]
        if pages:
            found[name] = "\n".join(f"* :doc:`{titles[page]} </{page}>`" for page in pages)
    return found


forget_old_names()
autosummary_filename_map = renamed_pages()

# What the templates of `_templates/autosummary` take besides what autosummary gives them. Members that are inherited
# from a class of another package are documented there.
autosummary_context = {
    "pages": pages_in_use(),
    "strangers": "object,BaseEstimator,ClassifierMixin,RegressorMixin,TransformerMixin,tuple,dict,str",
    # What scikit-learn makes for each estimator.
    "routed": "set_fit_request, set_partial_fit_request, set_predict_request, set_predict_proba_request, "
    "set_predict_log_proba_request, "
    "set_decision_function_request, set_score_request, get_metadata_routing, set_output",
}

nitpick_ignore_regex = [
    # Other packages have their own documentation, which is not read at a build.
    ("py:class", r"(numpy|sympy|collections|os|fractions|pathlib|datetime|sklearn)\..*"),
    # What the parts of a correction pass to one another: documented in the source, for developers.
    ("py:class", r"symdebias\.(derivation|codegen|release\.design|correction|records)\b.*"),
    ("py:class", r"symdebias\.transforms\.(exponential\..*|surrogate\.Scores)"),
    ("py:class", r"symdebias\.(_limits\.Limits|_columns\.Table|checks\.sampler\.SamplerCheck)"),
    ("py:class", r"symdebias\.mechanisms\.input_perturbation\.Halves"),
]


def escape_bars(app, what, name, obj, options, lines):
    """Let |x| in a docstring be an absolute value: substitutions, which bars mark in reST, are not used."""
    lines[:] = [line if "``" in line or line.lstrip().startswith(">>>") else line.replace("|", "\\|") for line in lines]


def formula(translator, node, display):
    """Write a formula as MathML, which browsers lay out by themselves."""
    translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def inline_formula(translator, node):
    """Write a formula within a line."""
    formula(translator, node, "inline")


def displayed_formula(translator, node):
    """Write a formula on a line of its own, in a box that scrolls where the screen is too narrow for it."""
    translator.body.append('<div class="formula">')
    translator.body.append(latex2mathml.converter.convert(node.astext(), display="block"))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def keep_names_out_of_the_sidebar(app, doctree):
    """Drop the tree of two hundred names, which the sidebar of every page would repeat; the lists and links stay."""
    for node in list(doctree.findall(autosummary_toc)):
        node.parent.remove(node)


def setup(app):
    """Register the hooks, those of docstrings to run after numpydoc, and the renderer of formulas."""
    # Before the trees of pages are collected.
    app.connect("doctree-read", keep_names_out_of_the_sidebar, priority=100)
    app.connect("autodoc-process-docstring", escape_bars, priority=1000)
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
