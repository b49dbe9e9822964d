"""Names: which names of TensorFlow a piece of source uses, and where, by following what its variables stand for.

A variable stands for a set of paths (``tensorflow.train``), or for something else (None), or, after branches, for
either.  Statements are followed in their order; functions are looked into when what encloses them is done, as most are
called then.  Where the program looks first whether a name is there (`hasattr`, ``try: … except ImportError``), its use
is guarded: it stops nothing.
Called by: command.  Threads: any; a Reader is used once, by one.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.tools.check.guards import truth

ROOTS = ("tensorflow", "tensorflow_core", "headrace")
Value = frozenset[str | None]
OTHER: Value = frozenset([None])
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}
_ANY_ERROR = {"Exception", "BaseException", "StandardError"}
_SIMPLE = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Use:
    """A name of TensorFlow, and where it is used."""

    path: str
    """``tensorflow.train.Saver``"""
    line: int
    column: int
    imported: bool = False
    guarded: bool = False


class _Scope:
    """What the names of a module, class or function stand for."""

    def __init__(
        self, parent: _Scope | None, names: set[str] | None, is_class: bool = False
    ) -> None:
        self.parent = parent
        self.names = names  # those that are its own; None: all that are bound (a module, a class)
        self.is_class = is_class
        self.bound: dict[str, Value] = {}
        self.waiting: list[Callable[[], None]] = []  # bodies of functions

    def has(self, name: str) -> bool:
        return name in self.bound if self.names is None else name in self.names


class Reader:
    """Collects the `uses` of a module.

    exists: whether headrace has what is at a path.  public: names of a module that ``import *`` may bring, whether
    headrace has them or not.
    """

    def __init__(
        self, exists: Callable[[str], bool], public: Callable[[str], Iterable[str]]
    ) -> None:
        self.uses: list[Use] = []
        self._exists = exists
        self._public = public
        self._scope = _Scope(None, None)
        self._stars: dict[str, str] = {}
        self._guards_imports = False
        self._guards_attributes = False
        self._dead = 0

    def read(self, tree: ast.Module) -> list[Use]:
        """The uses in a module, in the order of its lines."""
        self._block(tree.body)
        self._finish(self._scope)
        found = sorted({*self.uses}, key=lambda use: (use.line, use.column, use.path))
        following = [*found[1:], None]
        return [use for at, use in enumerate(found) if not _begins(use, following[at])]

    # -- uses ---------------------------------------------------------------------------------

    def _use(self, path: str, node: ast.AST, imported: bool = False) -> None:
        guarded = bool(self._dead) or (
            self._guards_imports if imported else self._guards_attributes
        )
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        self.uses.append(Use(path, line, column, imported, guarded))

    def _lookup(self, name: str) -> Value:
        scope: _Scope | None = self._scope
        first = True
        while scope is not None:
            if scope.has(name) and (first or not scope.is_class):
                return scope.bound.get(name, OTHER)
            scope, first = scope.parent, False
        if name in self._stars and not hasattr(builtins, name):
            return frozenset([self._stars[name]])
        return OTHER

    def _bind(self, name: str, value: Value) -> None:
        scope: _Scope = self._scope
        while not scope.has(name) and scope.names is not None and scope.parent is not None:
            scope = scope.parent  # it was declared global or nonlocal
        scope.bound[name] = value

    # -- expressions --------------------------------------------------------------------------

    def _value(self, node: ast.expr | None) -> Value:
        """What an expression stands for; notes the uses in it."""
        if node is None:
            return OTHER
        if isinstance(node, ast.Name):
            found = self._lookup(node.id)
            if node.id in self._stars and found == {self._stars[node.id]}:
                self._use(self._stars[node.id], node)
            return found
        if isinstance(node, ast.Attribute):
            return self._attribute(self._value(node.value), node.attr, node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.IfExp):
            return self._either_expression(node)
        if isinstance(node, ast.BoolOp):
            return self._bool_op(node)
        if isinstance(node, ast.NamedExpr):
            value = self._value(node.value)
            self._bind(node.target.id, value)
            return value
        if isinstance(node, ast.Lambda):
            self._function(node, [node.body])
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._value(child)
                elif isinstance(child, ast.keyword):
                    self._value(child.value)
        return OTHER

    def _attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        paths = [path for path in owner if path is not None]
        if not paths:
            return OTHER
        full = sorted(f"{path}.{name}" for path in paths)
        there = [path for path in full if self._exists(path)]
        if None in owner and not there:
            return OTHER  # it may be something else's attribute
        self._use(there[0] if there else full[0], node)
        return frozenset(there or full)

    def _call(self, node: ast.Call) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        first = node.args[0] if node.args else None
        second = node.args[1] if len(node.args) > 1 else None
        result = OTHER
        if name in ("getattr", "hasattr") and first is not None and _text(second) is not None:
            owner = self._value(first)
            assert second is not None
            if name == "getattr":
                kept = self._guards_attributes
                self._guards_attributes = kept or len(node.args) > 2
                result = self._attribute(owner, str(_text(second)), node)
                self._guards_attributes = kept
            for each in node.args[2:]:
                self._value(each)
            return result
        path = _text(first)
        if name in ("import_module", "__import__") and path is not None and _is_ours(path):
            self._use(path, node, imported=True)
            result = frozenset([path if name == "import_module" else path.partition(".")[0]])
        self._value(node.func)
        for each in node.args:
            self._value(each)
        for keyword in node.keywords:
            self._value(keyword.value)
        return result

    def _either_expression(self, node: ast.IfExp) -> Value:
        known = self._test(node.test)
        with _Dead(self, known is False):
            one = self._value(node.body)
        with _Dead(self, known is True):
            other = self._value(node.orelse)
        return one | other if known is None else one if known else other

    def _bool_op(self, node: ast.BoolOp) -> Value:
        """What comes after an operand that decides is not looked at by the program."""
        decides = isinstance(node.op, ast.Or)
        decided = False
        for each in node.values:
            with _Dead(self, decided):
                self._value(each)
            decided = decided or truth(each, self._path, self._exists) is decides
        return OTHER

    def _test(self, node: ast.expr) -> bool | None:
        """What is known of a condition; notes the uses in it."""
        self._value(node)
        return truth(node, self._path, self._exists)

    def _path(self, node: ast.expr) -> str | None:
        """The one path that an expression stands for; notes nothing."""
        if isinstance(node, ast.Name):
            found = self._lookup(node.id)
            return next(iter(found)) if len(found) == 1 else None
        if isinstance(node, ast.Attribute):
            owner = self._path(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return None

    def _comprehension(self, node: ast.expr) -> None:
        outer = self._scope
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        names = {name for each in generators for name in _targets(each.target)}
        self._scope = _Scope(outer, names)
        for each in generators:
            self._value(each.iter)
            for condition in each.ifs:
                self._value(condition)
        for field in ("elt", "key", "value"):
            self._value(getattr(node, field, None))
        outer.waiting.extend(self._scope.waiting)
        self._scope = outer

    # -- statements ---------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            self._import(node)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif isinstance(node, ast.Assign):
            value = self._value(node.value)
            for target in node.targets:
                self._assign(target, value, node.value)
        elif isinstance(node, ast.AnnAssign):
            self._value(node.annotation)
            self._assign(node.target, self._value(node.value), node.value)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                self._value(decorator)
            self._value(node.returns)
            self._function(node, node.body)
            self._bind(node.name, OTHER)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._value(node.iter)
            self._assign(node.target, OTHER, None)
            self._branches([node.body, []])
            self._block(node.orelse)
        elif isinstance(node, ast.While):
            self._value(node.test)
            self._branches([node.body, []])
            self._block(node.orelse)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._value(item.context_expr)
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, OTHER, None)
            self._block(node.body)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            self._try(node)
        else:
            self._other(node)

    def _other(self, node: ast.stmt) -> None:
        """Statements that bind nothing but what they delete; those of `match` are looked through."""
        if isinstance(node, ast.AugAssign):
            self._value(node.target)
            self._value(node.value)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child)
            elif isinstance(child, ast.match_case):
                for name in _bound_in([child]):
                    self._bind(name, OTHER)
                self._block(child.body)
        if isinstance(node, ast.Delete):
            for target in node.targets:
                self._assign(target, OTHER, None)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            ours = _is_ours(alias.name)
            if ours:
                self._use(alias.name, node, imported=True)
            top = alias.name.partition(".")[0]
            path = alias.name if alias.asname else top
            self._bind(alias.asname or top, frozenset([path]) if ours else OTHER)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not _is_ours(module):
            for alias in node.names:
                self._bind(alias.asname or alias.name, OTHER)
            return
        for alias in node.names:
            if alias.name == "*":
                self._use(module, node, imported=True)
                self._stars.update({name: f"{module}.{name}" for name in self._public(module)})
                continue
            path = f"{module}.{alias.name}"
            self._use(path, node, imported=True)
            self._bind(alias.asname or alias.name, frozenset([path]))

    def _assign(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(parts):
                parts = list(source.elts)
            for each, part in zip(target.elts, parts, strict=True):
                path = None if part is None else self._path(part)
                self._assign(each, OTHER if path is None else frozenset([path]), part)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, OTHER, None)
        else:  # an attribute or an element: nothing is known of it afterwards, but it is made of something
            for child in ast.iter_child_nodes(target):
                if isinstance(child, ast.expr):
                    self._value(child)

    def _class(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self._value(each)
        outer = self._scope
        self._scope = inner = _Scope(outer, None, is_class=True)
        self._block(node.body)
        self._scope = outer
        outer.waiting.extend(inner.waiting)
        self._bind(node.name, OTHER)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Sequence[ast.AST]
    ) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self._value(default)
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        for each in named:
            self._value(each.annotation)
        inner = _Scope(self._scope, {each.arg for each in named} | _bound_in(body))
        state = self._guards_imports, self._guards_attributes, self._dead

        def look() -> None:
            outer, kept = self._scope, (self._guards_imports, self._guards_attributes, self._dead)
            self._scope = inner
            self._guards_imports, self._guards_attributes, self._dead = state
            for each in body:
                if isinstance(each, ast.stmt):
                    self._statement(each)
                elif isinstance(each, ast.expr):
                    self._value(each)
            self._finish(inner)
            self._scope = outer
            self._guards_imports, self._guards_attributes, self._dead = kept

        self._scope.waiting.append(look)

    def _finish(self, scope: _Scope) -> None:
        while scope.waiting:
            scope.waiting.pop(0)()

    # -- branches -----------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        known = self._test(node.test)
        self._branches([node.body, node.orelse], [known is False, known is True])

    def _branches(
        self, bodies: Sequence[Sequence[ast.stmt]], dead: Sequence[bool] | None = None
    ) -> None:
        """Bodies of which one runs; what is known afterwards is what all that may run agree on."""
        before = dict(self._scope.bound)
        after: list[dict[str, Value]] = []
        for index, body in enumerate(bodies):
            self._scope.bound = dict(before)
            is_dead = dead is not None and dead[index]
            with _Dead(self, is_dead):
                self._block(body)
            if not is_dead:
                after.append(self._scope.bound)
        self._scope.bound = _joined(after or [before])

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        caught = {name for handler in node.handlers for name in _caught(handler)}
        simple = all(isinstance(each, _SIMPLE) for each in node.body)
        any_error = simple and bool(caught & _ANY_ERROR)
        kept = self._guards_imports, self._guards_attributes
        self._guards_imports = kept[0] or any_error or bool(caught & _IMPORT_ERRORS)
        self._guards_attributes = kept[1] or any_error or (simple and "AttributeError" in caught)
        before, first = dict(self._scope.bound), len(self.uses)
        self._block(node.body)
        self._guards_imports, self._guards_attributes = kept
        tried = [use for use in self.uses[first:] if use.guarded]
        works = all(self._exists(use.path) for use in tried) if tried and not self._dead else None
        self._block(node.orelse)
        after = [] if works is False else [self._scope.bound]
        for handler in node.handlers:
            self._scope.bound = (
                {**before} if works is False else _joined([before, self._scope.bound])
            )
            self._value(handler.type)
            if handler.name:
                self._bind(handler.name, OTHER)
            with _Dead(self, works is True and simple):
                self._block(handler.body)
            runs = works is not True or not simple
            if runs and not _leaves(handler.body):
                after.append(self._scope.bound)
        self._scope.bound = _joined(after or [before])
        self._block(node.finalbody)


class _Dead:
    """What is read inside never runs, as far as can be told."""

    def __init__(self, reader: Reader, dead: bool) -> None:
        self._reader = reader
        self._dead = int(dead)

    def __enter__(self) -> None:
        self._reader._dead += self._dead

    def __exit__(self, *exc: object) -> None:
        self._reader._dead -= self._dead


def _joined(ways: Sequence[dict[str, Value]]) -> dict[str, Value]:
    """What names stand for after one of several ways; unbound counts for nothing."""
    if len(ways) == 1:
        return ways[0]
    found: dict[str, Value] = {}
    for way in ways:
        for name, value in way.items():
            found[name] = found.get(name, frozenset()) | value
    return found


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ROOTS


def _text(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a body ends by leaving what it is in."""
    return bool(body) and isinstance(body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break))


def _caught(handler: ast.ExceptHandler) -> set[str]:
    kind = handler.type
    if kind is None:
        return {"BaseException"}
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in kinds}


def _targets(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _bound_in(body: Iterable[ast.AST]) -> set[str]:
    """Names that are a function's own because something in its body binds them."""
    found: set[str] = set()
    elsewhere: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            elsewhere.update(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        if isinstance(node, _COMPREHENSIONS):
            waiting.extend(each for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        elif not isinstance(node, _FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))
    return found - elsewhere


def _begins(use: Use, then: Use | None) -> bool:
    """Whether `use` is of ``tf.train``, and `then` of ``tf.train.Saver``, which begins with it."""
    return (
        then is not None
        and (use.line, use.column, use.imported) == (then.line, then.column, then.imported)
        and then.path.startswith(f"{use.path}.")
    )
