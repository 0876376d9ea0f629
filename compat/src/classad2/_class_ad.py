"""``ClassAd`` and ``ExprTree`` of classad2, each around its counterpart of :mod:`slotwise.classad`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Set
from typing import Any

from slotwise.classad import ERROR, UNDEFINED, SpecialValue, take_fault
from slotwise.classad import ClassAd as NativeAd
from slotwise.classad import ExprTree as NativeExpr
from slotwise.errors import AdSyntaxError

from classad2 import _errors
from classad2._enums import ClassAdException, Value

#: HTCondor's message, whatever is wrong with the text; `lastError` has the place.
_UNREADABLE = "Unable to parse string into a ClassAd."
_TARGET = re.compile(r"\bTARGET\.(\w+)")


def to_native(value: object) -> object:
    """The value as :mod:`slotwise.classad` takes it: no wrappers, no sets, no bytes."""
    if isinstance(value, ClassAd | ExprTree):
        return value._native
    if value is None or value is Value.Undefined:
        return UNDEFINED
    if value is Value.Error:
        return ERROR
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return NativeAd({_key(key): to_native(item) for key, item in value.items()})
    if isinstance(value, list | tuple | Set):
        return [to_native(item) for item in value]
    return value


def from_native(value: object) -> Any:
    """The value as classad2 gives it to programs."""
    if isinstance(value, SpecialValue):
        return Value.Undefined if value is UNDEFINED else Value.Error
    if isinstance(value, NativeAd):
        return ClassAd._of(value)
    if isinstance(value, NativeExpr):
        return ExprTree._of(value)
    if isinstance(value, list):
        return [from_native(item) for item in value]
    return value


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("ClassAd keys are strings")
    return key


def _scope(ad: object, what: str) -> NativeAd | None:
    if ad is None:
        return None
    if not isinstance(ad, ClassAd):
        raise TypeError(f"{what} must be a ClassAd")
    return ad._native


class ExprTree:
    """An expression of the ClassAd language."""

    __slots__ = ("_native",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: str | ExprTree | None = None) -> None:
        """Parse ``expr``; without one, the expression ``undefined``.

        :raises ClassAdException: ``expr`` is not an expression.
        """
        text = "undefined" if expr is None else str(expr)
        try:
            self._native = NativeExpr(text)
        except AdSyntaxError as error:
            raise _errors.remember(ClassAdException(_UNREADABLE), error) from error

    @classmethod
    def _of(cls, native: NativeExpr) -> ExprTree:
        made = cls.__new__(cls)
        made._native = native
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExprTree) and self._native == other._native

    def __str__(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return str(self._native)

    def __reduce__(self) -> tuple[type[ExprTree], tuple[str]]:
        return (ExprTree, (str(self),))

    def eval(self, scope: ClassAd | None = None, target: ClassAd | None = None) -> Any:
        """The value, with ``scope`` as MY and for names without a scope, and ``target`` as TARGET.

        Elements of a list that are not literals stay expressions, as in HTCondor's module.
        """
        my, other = _scope(scope, "scope"), _scope(target, "target")
        take_fault()
        value = self._native.eval(my, other)
        _errors.note(take_fault())
        if isinstance(value, list):
            value = NativeAd({"Value": self._native.simplify(my, other)})["Value"]
        return from_native(value)

    def simplify(self, scope: ClassAd | None = None, target: ClassAd | None = None) -> ExprTree:
        """The value as an expression; elements of a list stay as they are written."""
        return ExprTree._of(self._native.simplify(_scope(scope, "scope"), _scope(target, "target")))


class ClassAd(MutableMapping[str, Any]):
    """A ClassAd: attributes by name, without regard to case.

    Values are bool, int, float, str, datetime, list, :class:`ClassAd`, :class:`Value`, or :class:`ExprTree` for what is
    not a literal. Relative times are floats, in seconds.
    """

    __slots__ = ("_native",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, input: str | dict[str, Any] | None = None) -> None:
        """An empty ad, one from its text in the new form, or one from a dictionary.

        :raises ClassAdException: the text is not a ClassAd.
        """
        if input is None:
            self._native = NativeAd()
        elif isinstance(input, dict):
            native = to_native(input)
            assert isinstance(native, NativeAd)
            self._native = native
        elif isinstance(input, str):
            if not input.lstrip().startswith("["):
                raise ClassAdException(_UNREADABLE)
            try:
                self._native = NativeAd(input)
            except AdSyntaxError as error:
                raise _errors.remember(ClassAdException(_UNREADABLE), error) from error
        else:
            raise TypeError("input must be None, str, or dict")

    @classmethod
    def _of(cls, native: NativeAd) -> ClassAd:
        made = cls.__new__(cls)
        made._native = native
        return made

    def __repr__(self) -> str:
        return repr(self._native)

    def __str__(self) -> str:
        return str(self._native)

    def __reduce__(self) -> tuple[type[ClassAd], tuple[str]]:
        return (ClassAd, (repr(self),))

    def __eq__(self, other: object) -> bool:
        return self._native == other._native if isinstance(other, ClassAd) else NotImplemented

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[str]:
        # HTCondor's module sorts names without regard to case.
        return iter(sorted(self._native, key=str.lower))

    def __getitem__(self, key: str) -> Any:
        return from_native(self._native[_key(key)])

    def __setitem__(self, key: str, value: object) -> None:
        self._native[_key(key)] = to_native(value)

    def __delitem__(self, key: str) -> None:
        del self._native[_key(key)]

    def lookup(self, attr: str) -> ExprTree:
        """The expression of an attribute.

        :raises KeyError: the ad has no such attribute.
        """
        return ExprTree._of(self._native.lookup(_key(attr)))

    def eval(self, attr: str) -> Any:
        """The value of an attribute in the context of this ad.

        :raises KeyError: the ad has no such attribute.
        """
        return self.lookup(attr).eval(self)

    def flatten(self, expr: ExprTree) -> Any:
        """``expr`` with the attributes of this ad filled in: a value, or the expression that is left."""
        wanted = _expression(expr)
        references = wanted.references()
        left = self._native.flatten(wanted)
        if isinstance(left, NativeExpr):
            # Names that this ad lacks come back as TARGET.x; HTCondor's module leaves them as written.
            bare = {name.lower() for name in references.bare} - {name.lower() for name in references.target}
            left = NativeExpr(_TARGET.sub(lambda found: found[1] if found[1].lower() in bare else found[0], str(left)))
        return from_native(left)

    def externalRefs(self, expr: ExprTree) -> list[str]:
        """The attributes that ``expr``, and those of this ad that it reads, read and this ad does not define.

        :raises ValueError: an attribute of this ad reads itself.
        """
        names: set[str] = set()
        self._external(_expression(expr), names, set(), ())
        # HTCondor's module splits an empty text.
        return sorted(names, key=str.lower) or [""]

    def _external(self, expr: NativeExpr, names: set[str], done: set[str], within: tuple[str, ...]) -> None:
        """Add to ``names`` what ``expr`` reads from outside; ``within``: the attributes in which it stands."""
        references = expr.references()
        names.update(f"TARGET.{name}" for name in references.target)
        for name in (*references.my, *references.bare):
            lower = name.lower()
            if lower in within:
                raise ValueError("Unable to determine external references.")
            if name not in self._native:
                names.add(name)
            elif lower not in done:
                self._external(_expression(self.lookup(name)), names, done, (*within, lower))
                done.add(lower)

    def internalRefs(self, expr: ExprTree) -> list[str]:
        """The attributes that ``expr`` reads and this ad defines."""
        return list(self._native.internalRefs(_expression(expr))) or [""]

    def matches(self, ad: ClassAd) -> bool:
        """Whether the Requirements of ``ad`` are true with this ad as TARGET. Numbers count as truth values."""
        if not isinstance(ad, ClassAd):
            raise TypeError("ad must be a ClassAd")
        try:
            requirements = ad.lookup("requirements")
        except KeyError:
            return False
        value = requirements.eval(ad, self)
        return not isinstance(value, Value) and isinstance(value, bool | int | float) and bool(value)

    def symmetricMatch(self, ad: ClassAd) -> bool:
        """Whether each of the two ads matches the other."""
        return self.matches(ad) and ad.matches(self)

    def printJson(self) -> str:
        """The ad as JSON."""
        return _sorted(self._native).print_json()

    def printOld(self) -> str:
        """The ad in the old form, a line for each attribute."""
        return _sorted(self._native).print_old() if len(self) else "\n"

    formatJson = printJson
    formatOld = printOld


def _sorted(ad: NativeAd) -> NativeAd:
    ordered = NativeAd()
    for name in sorted(ad, key=str.lower):
        ordered[name] = ad.lookup(name)
    return ordered


def _expression(expr: object) -> NativeExpr:
    if not isinstance(expr, ExprTree):
        raise TypeError("expr must be an ExprTree")
    return expr._native
