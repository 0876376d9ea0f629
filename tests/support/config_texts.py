"""Random configuration texts that touch every corner of the language, the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

NAMES = [
    "A",
    "B",
    "C",
    "Ab_1",
    "x.y",
    "TOOL.A",
    "STARTD.B",
    "L.C",
    "MY.Z",
    "MAX_JOBS_RUNNING",
    "DEFAULT_PRIO_FACTOR",
    "START",
    "P",
    "Q",
]
VALUES = [
    "1",
    "2 * 3",
    "word",
    "a, b c,d",
    "/a/b/c.tar.gz",
    "",
    '"quoted"',
    "'sq'",
    "true",
    "0",
    "5.5",
    "-3",
    "x y  z",
    "$(A)",
    "$(B:dflt)",
    "$(C)",
    "$(Ab_1)x",
    "$(x.y)",
    "$(NOPE)",
    "$(NOPE:1,2)",
    "$(A:$(B:z))",
    "$(DOLLAR)(A)",
    "$$(A)",
    "$$([A])",
    "$ENV(HOX)",
    "$ENV(NOX:d)",
    "$ENV(NOX)",
    "$INT(A)",
    "$INT(A,%03d)",
    "$REAL(B)",
    "$REAL(B,%.2f)",
    "$STRING(C)",
    "$STRING(P,%s!)",
    "$EVAL(A)",
    "$EVAL(1+1)",
    "$EVAL(P)",
    "$SUBSTR(P,1,3)",
    "$SUBSTR(P,-4)",
    "$SUBSTR(P,2,-2)",
    "$CHOICE(0,A,B)",
    "$CHOICE(1,C)",
    "$CHOICE(A,x,y,z)",
    "$Fn(P)",
    "$Fx(P)",
    "$Fpd(P)",
    "$Fdd(P)",
    "$Fnxq(P)",
    "$Fpqa(P)",
    "$Fb(P)",
    "$Fdb(P)",
    "$Fdx(P)",
    "$Fdn(P)",
    "$Fxb(P)",
    "$Fw(P)",
    "$F(P)",
    "$BASENAME(P)",
    "$BASENAME(P,.gz)",
    "$BASENAME(/x/y.z, .z)",
    "$DIRNAME(P)",
    "$Fn($(P))",
    "$RANDOM_CHOICE(only)",
    "$RANDOM_INTEGER(3,3)",
    "$(",
    "$()",
    "$(A",
    "$( A )",
    "$A",
    "$",
    "a$(A)b$(B)c",
    "$(A)$(A)",
    "$(A$(B))",
    "$(a)",
    "#x",
    "x # y",
    "\\",
    "a\\b",
    "ünï",
    "$INT(NOPE)",
    "$INT(x y)",
    "$FOO(A)",
    "$(A:)",
    "$(A:%)",
    "$(NOPE:a(b)c)",
    "$(NOPE:a b:c\\d$e)",
    "$INT(A,)",
    "$INT(A, %d)",
    "$INT(A,%s)",
    "$REAL(A,%d)",
    "$STRING(A,%d)",
    "$INT( A )",
    "$EVAL( A )",
    "$EVAL($(A))",
    '$EVAL(strcat("a","b"))',
    '$STRING(strcat("a",1))',
    "$SUBSTR(A)",
    "$SUBSTR(,1)",
    "$SUBSTR(P,A)",
    "$CHOICE(9,a)",
    "$CHOICE()",
    "$RANDOM_CHOICE()",
    "$DIRNAME(/a/b/)",
    "$Fpd(/a/)",
    "$Fnx(/a/b/)",
    "$Fp(x)",
    "$Fd(x)",
    '$Fq("x y")',
    "$Fqa('x y')",
    "$Fnq(/a/b.c)",
    "$Fxq(/a/b.c)",
    'strcat("a\\b", "\\n")',
    "0x10",
    "1e400",
    "true ? 1 : 2 x",
    "(2+3)*4",
    "10/4.0",
    ".b",
    "$INT(A,%p)",
    "$INT(A,%d%)",
    "$INT(A,<%-5d>)",
    "$REAL(B,%a)",
    "$REAL(B,%.1A)",
    "$REAL(Q,%08.2f)",
    "$STRING(P,%.3s)",
    "$INT(Q)",
    "$REAL(Q)",
    "$EVAL(Q)",
    "$EVAL(C)",
    "$STRING(Q)",
]
CONDITIONS = [
    "true",
    "false",
    "0",
    "1",
    "yes",
    "no",
    "t",
    "f",
    "$(A)",
    "$(NOPE)",
    "! $(A)",
    "defined A",
    "defined NOPE",
    "! defined B",
    "defined START",
    "defined $(A)",
    "version >= 8.1.2",
    "version < 9",
    "version == 25.14",
    "version != 25.14.1",
    "version > 25.14.1",
    "!version>=8.0",
    "$(NOPE:1)",
    "defined use POLICY",
    "defined use POLICY:Desktop",
    "defined use NOPE",
    "5 > 3",
    "A",
    "-1",
    "1e3",
    "0.0",
    "true && false",
    "defined",
    "version",
    '"x"',
    "!",
    "defined A B",
    "version >= v8.2",
    "$INT(A)",
    "defined 5",
    "defined true",
    "1.",
    "..",
    "a.b",
    "version >= 8.x",
    "version =< 9.0",
    "! ! true",
    "TRUE",
    "True ",
    "0x1",
]

COMMENTS = ["# comment", "#", "", "   ", "[section]", "# c \\", "#opt:oldcomment", "#opt:newcomment"]
INCLUDES = [
    "include ifexist : @DIR@/none",
    "include : @DIR@/inc",
    "include : @DIR@/inc ",
    "Include:@DIR@/inc",
    "include : @DIR@",
    "include ifexist : $(NOPE)@DIR@/inc",
    "include command : /bin/echo Z = 1",
    "include : /bin/echo Z = $(A) |",
    "warning : hm $(A)",
]
TEMPLATES = [
    "use POLICY : Always_Run_Jobs",
    "use policy:Limit_Job_Runtimes( 5 ), Always_Run_Jobs",
    "USE FEATURE : GPUs",
    "use FEATURE : Monitor(a,b,c,d,e,f)",
    "use ROLE : Submit Execute",
    "use ROLE : Personal,Submit",
    "@use ROLE : Submit",
    "use POLICY : Want_Hold_If(A, 1, x y)",
]
STATEMENTS = [
    "$(A)_n = 5",
    "Ab_$(NOPE) = 1",
    "A B = 4",
    "A = b = c",
    "A == c",
    "P = /d/e.f",
    "Q = 1 + 2",
    "A = $(A) $(A)",
]
BROKEN = [
    "bad line",
    "= 5",
    "A-B = 1",
    "A",
    "error : x",
    "use NOPE : x",
    "use POLICY : Nope",
    "use POLICY",
    "include",
    "else",
    "endif",
    "A @= ",
    "@=x",
    "include foo : x",
    "A @end",
    " : x",
    "A +",
    "use : x",
    "error",
]
QUERIES = [
    *NAMES,
    "Z",
    "A_n",
    "5_n",
    "1_n",
    "Ab_",
    "I1",
    "I2",
    "DAEMON_LIST",
    "WANT_HOLD",
    "MAXJOBRETIREMENTTIME",
    "STARTD_CRON_JOBLIST",
    "STARTD_CRON_a_MONITOR_METRICS",
    "CONDOR_HOST",
]
INCLUDED = "I1 = $(A)\nI2 = inc\nA = $(A) inc\n"


class Writer:
    """Writes texts from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def value(self) -> str:
        if self.random.random() < 0.7:
            return self.pick(*VALUES)
        return self.pick("", "", " ").join(self.pick(*VALUES) for _ in range(self.random.randint(1, 4)))

    def own(self) -> str:
        name = self.pick(*NAMES)
        forms = (
            f"$({name})",
            f"$({name}:d)",
            f"a $({name}) b",
            f"$({name.lower()})$({name})",
            f"$INT({name})",
            f"$Fn({name})",
        )
        return f"{name} = {self.pick(*forms)}"

    def here(self, depth: int) -> str:
        tag = self.pick("end", "x y", "E1")
        lines = [
            self.pick(self.value(), "  " + self.value(), "# c", "@other", "", self.line(9) if depth < 1 else "z")
            for _ in range(self.random.randint(0, 4))
        ]
        text = "\n".join(lines)
        return f"{self.pick(*NAMES)} {self.pick('@=', '@= ', '@ =')}{tag}\n{text}\n{self.pick('', '  ')}@{tag}"

    def block(self, depth: int) -> str:
        def body(most: int) -> list[str]:
            return [self.line(depth + 1) for _ in range(self.random.randint(0, most))]

        out = [f"{self.pick('if', 'If', 'IF', ':if')} {self.pick(*CONDITIONS)}", *body(3)]
        if self.random.random() < 0.33:
            out += [f"elif {self.pick(*CONDITIONS)}", *body(2)]
        if self.random.random() < 0.5:
            out += ["else", *body(2)]
        if self.random.random() < 0.97:
            out.append(self.pick("endif", " endif ", "ENDIF"))
        return "\n".join(out)

    def continued(self) -> str:
        middle = self.pick("", "  ", "# c\n", "# c \\\n")
        end = self.pick("", " ") + self.pick("", "\\")
        return f"{self.pick(*NAMES)} = {self.pick(*VALUES)} \\\n{middle}{self.pick(*VALUES)}{end}"

    def line(self, depth: int = 0) -> str:
        kind = self.random.random()
        if kind < 0.5:
            operator = self.pick(" = ", "=", "\t=  ", " =", " : ", ":")
            before, after = self.pick("", "", " ", "\t"), self.pick("", " ", " \t")
            return f"{before}{self.pick(*NAMES)}{operator}{self.value()}{after}"
        if kind < 0.56:
            return self.own()
        if kind < 0.6:
            operator = self.pick("+=", "+,=", "+;=", "+&&=", "+||=", "+|=", "+*=", "+ =", "+x=")
            return f"{self.pick(*NAMES)} {operator} {self.value()}"
        if kind < 0.66:
            return self.here(depth)
        if kind < 0.78 and depth < 3:
            return self.block(depth)
        if kind < 0.86:
            return self.continued()
        if kind < 0.9:
            return self.pick(*COMMENTS, *INCLUDES, *TEMPLATES)
        return self.pick(*STATEMENTS) if kind < 0.97 else self.pick(*BROKEN)

    def case(self) -> dict[str, Any]:
        """A whole case: files, environment, subsystem, knobs to ask for."""
        text = "\n".join(self.line() for _ in range(self.random.randint(1, 14))) + self.pick("\n", "\n", "\n", "")
        envs: list[dict[str, str]] = [{}, {"HOX": "hox"}, {"HOX": "hox", "_CONDOR_B": "env $(A)", "_condor_Q": "q"}]
        return {
            "files": {"main": text, "inc": INCLUDED},
            "env": self.random.choice(envs),
            "subsystem": self.random.choice([None, None, "STARTD"]),
            "queries": QUERIES,
        }
