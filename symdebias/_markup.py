"""Text as HTML, formulas as MathML and LaTeX. Names come from strangers: every one is escaped here and nowhere else."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.dom import Node

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter

# Names that LaTeX and MathML may set as mathematics; others are set as text.
_PLAIN = re.compile(r"[A-Za-z]+(_?[0-9]+)*(_[A-Za-z]+)?")
# What LaTeX takes for a command, in forms of the same look that it prints.
_INERT = {ord(sign): chr(ord(sign) + 0xFEE0) for sign in "\\{}$&#^_~%<>"}
# A longer formula is described and not set.
_MOST_OPERATIONS = 150
# So many terms of a sum stand on one line.
_ONE_LINE = 4


class _Printer(MathMLPresentationPrinter):
    """SymPy's printer of MathML, with cases in place of a function of pairs."""

    def _print_Piecewise(self, expr: Any) -> Any:
        table = self.dom.createElement("mtable")
        table.setAttribute("columnalign", "left left")
        for value, condition in expr.args:
            row = self.dom.createElement("mtr")
            where = self._words("otherwise") if condition == sp.true else self._print(condition)
            for content in (self._print(value), where):
                cell = self.dom.createElement("mtd")
                cell.appendChild(content)
                row.appendChild(cell)
            table.appendChild(row)
        whole = self.dom.createElement("mrow")
        brace = self.dom.createElement("mo")
        brace.appendChild(self.dom.createTextNode("{"))
        whole.appendChild(brace)
        whole.appendChild(table)
        return whole

    def _print_Symbol(self, sym: Any, style: str = "plain") -> Any:
        if _PLAIN.fullmatch(sym.name):
            return super()._print_Symbol(sym, style)
        return self._words(sym.name)

    def _words(self, text: str) -> Any:
        words = self.dom.createElement("mtext")
        # What is written below takes entities for what they stand for; those of a name are its own letters.
        words.appendChild(self.dom.createTextNode(html.escape(text)))
        return words


def escaped(text: object) -> str:
    """Return text as HTML shows it, in attributes too."""
    return html.escape(str(text), quote=True)


def mathml(expression: sp.Basic) -> str:
    """Return a formula as an element of MathML.

    Parameters
    ----------
    expression : sympy.Basic
        The formula. Names of symbols are escaped; SymPy's own printer would write them as they are.

    Examples
    --------
    >>> mathml(sp.Symbol("<script>") + 1)
    '<math display="block"><mrow><mtext>&lt;script&gt;</mtext><mo>+</mo><mn>1</mn></mrow></math>'
    """
    return f'<math display="block">{_written(_Printer()._print(expression))}</math>'


def latex(expression: sp.Basic) -> str:
    r"""Return a formula as LaTeX, without dollar signs; names that are no mathematics are set as inert text.

    Examples
    --------
    >>> latex(sp.Symbol("x_1") / 2), latex(sp.Symbol(r"a\b"))
    ('\\frac{x_{1}}{2}', '\\text{a＼b}')
    """
    odd = {
        symbol: rf"\text{{{symbol.name.translate(_INERT)}}}"
        for symbol in expression.free_symbols
        if isinstance(symbol, sp.Symbol) and not _PLAIN.fullmatch(symbol.name)
    }
    return str(sp.latex(expression, symbol_names=odd))


def displayed(expression: sp.Basic) -> str | None:
    """Return a formula as notebooks take LaTeX, or None for one that is too long for a reader."""
    return rf"$\displaystyle {latex(expression)}$" if _is_short(expression) else None


def formula(expression: sp.Basic) -> str:
    """Return a formula for a page: sums of many terms break over lines, and numbers have four digits.

    A formula that is too long for a reader is said to be so.
    """
    if not _is_short(expression):
        return f"<p>a formula of {int(sp.count_ops(expression)):,} operations</p>"
    expression = expression.xreplace({number: sp.Float(number, 4) for number in expression.atoms(sp.Float)})
    terms = expression.as_ordered_terms() if isinstance(expression, sp.Add) else []
    if len(terms) <= _ONE_LINE:
        return mathml(expression)
    parts = []
    for place, term in enumerate(terms):
        is_less = term.could_extract_minus_sign()
        sign = "<mo>−</mo>" if is_less else "<mo>+</mo>" if place else ""
        parts.append(f"<math><mrow>{sign}{_written(_Printer()._print(-term if is_less else term))}</mrow></math>")
    return f"<p>{' '.join(parts)}</p>"


def _is_short(expression: sp.Basic) -> bool:
    return int(sp.count_ops(expression)) <= _MOST_OPERATIONS


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """Return a table, the first column of it names of rows.

    Parameters
    ----------
    head : sequence of str
        The names of the columns.
    rows : iterable of sequences of str
        The cells as text, escaped here.
    caption : str
        What the table shows.
    """
    lines = ["<table>"]
    lines += [f"<caption>{escaped(caption)}</caption>"] if caption else []
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{escaped(name)}</th>' for name in head) + "</tr></thead>")
    lines.append("<tbody>")
    columns = head[1:]
    for name, *cells in rows:
        # Where a screen is narrow a row is shown as a list, each cell with the name of its column.
        inside = "".join(
            f'<td data-name="{escaped(column)}">{escaped(cell)}</td>'
            for column, cell in zip(columns, cells, strict=True)
        )
        first = f' data-name="{escaped(head[0])}"' if head[0] else ""
        lines.append(f'<tr><th scope="row"{first}>{escaped(name)}</th>{inside}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>"])


def facts(pairs: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return names with what is said of each, as a list of definitions.

    Parameters
    ----------
    pairs : iterable of (str, sequence of str)
        A name and lines of text, escaped here.
    """
    lines = ["<dl>"]
    for name, said in pairs:
        lines.append(f"<dt>{escaped(name)}</dt>")
        lines += [f"<dd>{escaped(line)}</dd>" for line in said]
    return "\n".join([*lines, "</dl>"])


def _written(node: Any) -> str:
    """Return a node as HTML; SymPy's text nodes hold entities beside names, and are written by it unescaped."""
    if node.nodeType == Node.TEXT_NODE:
        # The double-struck e of differentials is no letter that readers know.
        return html.escape(html.unescape(node.data).replace("\u2147", "e"))
    if node.tagName == "mfenced":
        # Of older SymPy. Browsers no longer know it, and would show no parentheses.
        ends = [
            f"<mo>{escaped(node.getAttribute(end) or default)}</mo>" for end, default in (("open", "("), ("close", ")"))
        ]
        return f"<mrow>{ends[0]}{'<mo>,</mo>'.join(map(_written, node.childNodes))}{ends[1]}</mrow>"
    attributes = "".join(f' {name}="{escaped(value)}"' for name, value in node.attributes.items())
    inside = "".join(_written(child) for child in node.childNodes)
    return f"<{node.tagName}{attributes}>{inside}</{node.tagName}>"
