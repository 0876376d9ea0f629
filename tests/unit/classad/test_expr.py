"""Static facts of expressions, and why ads match."""

from __future__ import annotations

from slotwise.classad import UNDEFINED, ClassAd, ExprTree, define_user_map, definition_in, match, quote

JOB = ClassAd('[ RequestCpus = 2; Need = RequestCpus * 2; Requirements = TARGET.Cpus >= Need && Arch == "X86_64" ]')
MACHINE = ClassAd('[ Cpus = 8; Arch = "ARM"; Requirements = TARGET.RequestCpus <= Cpus ]')


def test_references_by_side() -> None:
    reads = ExprTree("MY.a + TARGET.b + c + other.d + [ e = f; g = e ].g").references()
    assert reads.my == ["a"]
    assert reads.target == ["b", "d"]
    assert reads.bare == ["c", "f"]
    assert not reads.unbounded


def test_references_follow_definitions_once_the_ad_is_known() -> None:
    reads = JOB.lookup("Requirements").references(JOB)
    assert reads.my == ["Need", "RequestCpus"]
    assert reads.target == ["Cpus", "Arch"]
    assert JOB.externalRefs(JOB.lookup("Requirements")) == ["Cpus", "Arch"]
    assert JOB.internalRefs(JOB.lookup("Requirements")) == ["Need", "RequestCpus"]


def test_eval_of_text_is_looked_into_and_of_anything_else_is_unbounded() -> None:
    assert ExprTree('eval("TARGET.a + b")').references().target == ["a"]
    assert ExprTree("eval(strcat(a, b))").references().unbounded


def test_constant_subscripts_are_names_and_ads_as_values_are_unbounded() -> None:
    reads = ExprTree('TARGET["Color"] == MY["Paint"]').references()
    assert (reads.my, reads.target, reads.unbounded) == (["Paint"], ["Color"], False)
    assert ExprTree("TARGET[Name]").references().unbounded
    assert ExprTree("isUndefined(TARGET)").references().unbounded
    assert not ExprTree("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs)").references().unbounded
    assert ExprTree("time() > 3").references().volatile


def test_folding_keeps_what_is_not_constant() -> None:
    assert str(ExprTree("1 + 2 * 3 < x").fold()) == "7 < x"
    assert str(ExprTree("true && a == 1").fold()) == "a == 1"
    assert str(ExprTree("false && a").fold()) == "false"
    assert str(ExprTree('strcat("a", "b") == x').fold()) == '"ab" == x'
    assert str(ExprTree("true && a").fold()) == "true && a"
    assert str(ExprTree("time() + 1").fold()) == "time() + 1"


def test_the_residual_needs_only_the_target() -> None:
    rest = JOB.lookup("Requirements").residual(JOB)
    assert str(rest) == 'TARGET.Cpus >= 4 && TARGET.Arch == "X86_64"'
    assert rest.references().my == []
    assert rest.eval(ClassAd(), MACHINE) is False


def test_conjuncts_are_split_through_parentheses() -> None:
    assert [str(e) for e in ExprTree("a && (b && c || d) && (e && f)").conjuncts()] == ["a", "(b && c || d)", "e", "f"]


def test_canonical_identity() -> None:
    one, other = ExprTree("(TARGET.Memory > 1)"), ExprTree("target.MEMORY > 1")
    assert one.canonical_hash == other.canonical_hash
    assert one != other
    assert ExprTree("a > 1").canonical_hash != ExprTree("a >= 1").canonical_hash
    assert hash(ExprTree("a")) == hash(ExprTree("a"))


def test_simplify_gives_a_literal() -> None:
    assert str(ExprTree("Need + 1").simplify(JOB)) == "5"


def test_match_tells_which_clause_fails_on_which_side() -> None:
    found = match(JOB, MACHINE)
    assert not found
    assert [str(clause.expr) for clause in found.left.failed] == ['Arch == "X86_64"']
    assert found.left.clauses[0].passes
    assert found.right.accepts
    assert JOB.symmetric_match(MACHINE) is False
    assert JOB.matches(MACHINE) is True


def test_an_ad_without_requirements_accepts_nothing() -> None:
    found = match(ClassAd("[ a = 1 ]"), MACHINE)
    assert found.left.value is UNDEFINED
    assert found.left.clauses == ()
    assert not found


def test_quote() -> None:
    assert quote('a"\\\n') == '"a\\"\\\\\\n"'


def test_user_maps() -> None:
    call = 'userMap("groups", "alice"{})'
    assert ExprTree(call.format("")).eval() is UNDEFINED
    define_user_map("groups", "* alice physics,bio\n* /.*/ other\n")
    try:
        assert ExprTree(call.format("")).eval() == "physics,bio"
        assert ExprTree(call.format(', "BIO"')).eval() == "bio"
        assert ExprTree(call.format(', "chem"')).eval() == "physics"
        assert ExprTree('userMap("groups", "bob", "x", "none")').eval() == "other"
    finally:
        define_user_map("groups", None)
    assert ExprTree(call.format(', "x", "none"')).eval() == "none"


def test_spans_are_kept_when_asked_for() -> None:
    assert ExprTree("a + 1").span is None and ExprTree("a + 1").nodes() == []
    text = '"é" == x &&\n  (b || c[0])'
    tree = ExprTree(text, spans=True)
    assert tree.source == text and tree.span == (0, len(text))
    shown = [text[slice(*node.span)] for node in tree.nodes() if node.span]
    assert shown == [text, '"é" == x', '"é"', "x", "(b || c[0])", "b || c[0]", "b", "c[0]", "c", "0"]
    assert all(ExprTree(part) == node for part, node in zip(shown, tree.nodes(), strict=True))
    left, right = tree.conjuncts()
    assert (left.line_column, right.line_column) == ((1, 1), (2, 3))
    assert left.excerpt() == '  "é" == x &&\n  ^^^^^^^^'
    assert right.excerpt() == "    (b || c[0])\n    ^^^^^^^^^^^"


def test_the_definition_in_a_text_has_its_place_there() -> None:
    text = '# my job\nOwner = "alice"\nRequirements = Memory > 5 && Arch == "X86_64"\n'
    found = definition_in(text, "requirements")
    assert found is not None and found.line_column == (3, 16)
    assert [clause.line_column for clause in found.conjuncts()] == [(3, 16), (3, 30)]
    assert definition_in(text, "Rank") is None and definition_in('{"Requirements": true}', "Requirements") is None
