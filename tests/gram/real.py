# SPDX-License-Identifier: MIT
"""Schemas in the forms that programs write: Python classes, tools of servers and of coding agents, OpenAPI documents, older
drafts, and unusually large ones. tests/gram/judge.py tests each of them. Only the forms were taken from real programs; all data
was written for this project."""


def obj(required=None, extra=None, /, **props):
    s = {"type": "object", "properties": props, "required": list(props) if required is None else required}
    if extra is not None:
        s["additionalProperties"] = extra
    return s


STR, INT, NUM, BOOL, NULL = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))


def ref(name):
    return {"$ref": "#/$defs/" + name}


def maybe(s):
    return {"anyOf": [s, NULL], "default": None}


def nested(depth):
    s = {"type": "object", "properties": {"leaf": INT}, "required": ["leaf"], "additionalProperties": False}
    for i in range(depth):
        s = {"type": "object", "properties": {f"level_{i}": s}, "required": [f"level_{i}"], "additionalProperties": False}
    return s


SCHEMAS = {
    # classes, as pydantic 2 writes them
    "class: optional, defaults": {"title": "User", **obj(["id", "name"], None, id={"title": "Id", **INT}, name={"title": "Name", "maxLength": 80, "minLength": 1, **STR}, email={"anyOf": [{"type": "string", "format": "email"}, NULL], "default": None, "title": "Email"}, tags={"default": [], "items": STR, "title": "Tags", "type": "array"})},
    "class: tree": {"$defs": {"Node": obj(["value"], None, value=INT, children={"type": "array", "items": ref("Node"), "default": []}, parent_name=maybe(STR))}, "$ref": "#/$defs/Node"},
    "class: discriminated": {"$defs": {"Cat": obj(["kind", "lives"], None, kind={"const": "cat", "default": "cat", "type": "string"}, lives={"type": "integer", "minimum": 0, "maximum": 9}), "Dog": obj(["kind", "good"], None, kind={"const": "dog", "default": "dog", "type": "string"}, good=BOOL)}, "type": "object", "properties": {"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "oneOf": [ref("Cat"), ref("Dog")]}}, "required": ["pet"]},
    "class: enums and literals": {"$defs": {"Color": {"enum": ["red", "green", "blue"], "title": "Color", "type": "string"}}, **obj(None, False, color=ref("Color"), level={"enum": [1, 2, 3], "type": "integer"}, mixed={"enum": ["auto", 0, 1.5, None, True]})},
    "class: formats": obj(None, False, id={"type": "string", "format": "uuid"}, at={"type": "string", "format": "date-time"}, day={"type": "string", "format": "date"}, took={"type": "string", "format": "duration"}, home={"type": "string", "format": "uri", "maxLength": 60, "minLength": 1}, ip={"type": "string", "format": "ipv4"}, mail={"type": "string", "format": "email"}),
    "class: decimals": obj(None, False, price={"anyOf": [{"type": "number", "exclusiveMinimum": 0.0}, {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]}, ratio={"type": "number", "minimum": 0, "exclusiveMaximum": 1}, cents={"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 100}),
    "class: maps": obj(None, False, counts={"type": "object", "additionalProperties": INT}, nested={"type": "object", "additionalProperties": {"type": "array", "items": NUM}}, free={"type": "object", "additionalProperties": True}),
    "class: tuple": {"type": "array", "prefixItems": [INT, STR, maybe(BOOL)], "minItems": 3, "maxItems": 3},
    "class: set of literals": {"type": "array", "uniqueItems": True, "items": {"enum": ["read", "write", "exec"]}},
    "class: set of numbers": obj(None, False, ids={"type": "array", "uniqueItems": True, "items": INT, "maxItems": 4}),
    "class: generic pair of references": {"$defs": {"Box_int_": obj(None, None, item=INT), "Box_str_": obj(None, None, item=STR)}, "anyOf": [ref("Box_int_"), ref("Box_str_")]},
    "class: reference with siblings": {"$defs": {"Name": {"type": "string", "minLength": 2}}, **obj(None, False, first={"$ref": "#/$defs/Name", "description": "first", "maxLength": 5}, last={"allOf": [ref("Name")], "default": "x"})},
    "class: alias with odd names": obj(None, False, **{"@type": STR, "x-y": INT, "ünï": BOOL, "a b": NULL, "quo\"te": STR, "$ref": STR}),
    "class: name of a keyword": obj(None, False, properties=STR, required={"type": "array", "items": STR}, type={"const": "object"}, enum=INT),
    # zod and other TypeScript
    "zod: union": {"$schema": "http://json-schema.org/draft-07/schema#", "anyOf": [{"type": "object", "properties": {"ok": {"type": "boolean", "const": True}, "data": STR}, "required": ["ok", "data"], "additionalProperties": False}, {"type": "object", "properties": {"ok": {"type": "boolean", "const": False}, "error": STR}, "required": ["ok", "error"], "additionalProperties": False}]},
    "zod: nullable types": obj(["a", "b", "c"], False, a={"type": ["string", "null"]}, b={"type": ["number", "string"]}, c={"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}, d={"not": {}}),
    "zod: record": {"type": "object", "propertyNames": {"type": "string", "pattern": "^[a-z]{1,8}$"}, "additionalProperties": {"type": "string", "maxLength": 9}},
    "zod: record of an enum": {"type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "additionalProperties": BOOL},
    "zod: intersection": {"allOf": [obj(None, None, a=STR), obj(None, None, b=INT)], "unevaluatedProperties": False},
    "zod: lazy": {"$ref": "#/definitions/json", "definitions": {"json": {"anyOf": [STR, NUM, BOOL, NULL, {"type": "array", "items": {"$ref": "#/definitions/json"}}, {"type": "object", "additionalProperties": {"$ref": "#/definitions/json"}}]}}},
    # tools of servers
    "files: read": obj(["path"], False, path=STR, tail={"type": "number", "description": "last lines"}, head=NUM),
    "files: edit": {**obj(["path", "edits"], False, path=STR, edits={"type": "array", "items": obj(None, False, oldText=STR, newText=STR)}, dryRun={"type": "boolean", "default": False}), "$schema": "http://json-schema.org/draft-07/schema#"},
    "files: search": obj(["path", "pattern"], False, path=STR, pattern=STR, excludePatterns={"type": "array", "items": STR, "default": []}),
    "issues: create": obj(["owner", "repo", "title"], None, owner=STR, repo=STR, title=STR, body=STR, labels={"type": "array", "items": STR}, milestone={"type": "number"}, assignees={"type": "array", "items": STR}),
    "issues: list": obj(["owner", "repo"], None, owner=STR, repo=STR, state={"type": "string", "enum": ["open", "closed", "all"]}, page={"type": "number", "minimum": 1}, perPage={"type": "number", "minimum": 1, "maximum": 100}, since={"type": "string", "format": "date-time"}),
    "browser: click": obj(["element", "ref"], False, element=STR, ref=STR, doubleClick=BOOL, button={"type": "string", "enum": ["left", "right", "middle"]}, modifiers={"type": "array", "items": {"type": "string", "enum": ["Alt", "Control", "Meta", "Shift"]}}),
    "browser: fill": obj(None, False, fields={"type": "array", "items": obj(None, False, name=STR, type={"type": "string", "enum": ["textbox", "checkbox", "slider"]}, ref=STR, value=STR)}),
    "browser: no arguments": {"type": "object", "properties": {}, "additionalProperties": False, "$schema": "http://json-schema.org/draft-07/schema#"},
    "server: bare object": {"type": "object"},
    # coding agents
    "agent: shell": obj(["command"], False, command={"type": "array", "items": STR}, workdir=STR, timeout_ms=NUM, with_escalated_permissions=BOOL),
    "agent: bash": obj(["command"], False, command=STR, timeout={"type": "number", "maximum": 600000}, run_in_background=BOOL),
    "agent: plan": obj(["plan"], False, explanation=STR, plan={"type": "array", "items": obj(None, False, step=STR, status={"type": "string", "enum": ["pending", "in_progress", "completed"]})}),
    "agent: todo": obj(None, False, todos={"type": "array", "items": obj(None, False, content={"type": "string", "minLength": 1}, status={"enum": ["pending", "done"]}, activeForm={"type": "string", "minLength": 1})}),
    "agent: many edits": obj(None, False, file_path=STR, edits={"type": "array", "minItems": 1, "items": obj(["old_string", "new_string"], False, old_string=STR, new_string=STR, replace_all={"type": "boolean", "default": False})}),
    "agent: question": obj(None, False, questions={"type": "array", "minItems": 1, "maxItems": 4, "items": obj(None, False, question=STR, header={"type": "string", "maxLength": 12}, options={"type": "array", "minItems": 2, "maxItems": 4, "items": obj(None, False, label=STR, description=STR)}, multiSelect=BOOL)}),
    "agent: grep": obj(["pattern"], False, **{"pattern": STR, "path": STR, "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]}, "-A": NUM, "-i": BOOL, "head_limit": {"type": "integer", "minimum": 0}}),
    # OpenAPI
    "openapi: nullable": obj(["id"], None, id={"type": "integer", "format": "int64"}, name={"type": "string", "nullable": True}, kind={"type": "string", "enum": ["a", "b"], "nullable": True}),
    "openapi: allOf base": {"components": {"schemas": {"Base": obj(None, None, id=INT)}}, "allOf": [{"$ref": "#/components/schemas/Base"}, obj(None, None, extra=STR)]},
    "openapi: binary": obj(None, False, file={"type": "string", "format": "byte", "contentEncoding": "base64"}, ratio={"type": "number", "format": "double"}, secret={"type": "string", "format": "password", "writeOnly": True}),
    "openapi: exclusive as draft 4": obj(None, False, n={"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9}),
    # older and newer drafts
    "draft 4: definitions": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://example.com/x", "definitions": {"pos": {"type": "integer", "minimum": 1}}, **obj(["n"], None, n={"$ref": "#/definitions/pos"}, old={"type": "array", "items": [INT, STR], "additionalItems": False})},
    "draft 7: tuple": {"type": "array", "items": [{"const": "point"}, NUM, NUM], "additionalItems": False, "minItems": 3},
    "draft 7: dependencies": {**obj([], False, card=STR, address=STR, code=STR), "dependencies": {"card": ["address", "code"]}},
    "anchor": {"$defs": {"a": {"$anchor": "item", "type": "string", "maxLength": 3}}, "type": "array", "items": {"$ref": "#item"}, "maxItems": 3},
    "dynamic reference": {"$dynamicAnchor": "node", "type": "object", "properties": {"v": INT, "next": {"$dynamicRef": "#node"}}, "required": ["v"], "additionalProperties": False},
    "boolean schemas": {**obj(["any"], False, any=True), "properties": {"any": True, "never": False}},
    "if then else": {**obj(["kind"], False, kind={"enum": ["a", "b"]}, x=INT), "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}},
    "dependent required": {**obj([], False, a=INT, b=INT, c=INT), "dependentRequired": {"a": ["b"], "b": ["c"]}},
    "contains": {"type": "array", "contains": {"const": 1}, "items": INT, "maxItems": 4},
    "pattern properties": {"type": "object", "patternProperties": {"^S_": STR, "^I_": INT}, "additionalProperties": False},
    "pattern properties with names": {"type": "object", "properties": {"S_id": {"maxLength": 3}}, "patternProperties": {"^S_": STR}, "required": ["S_id"], "additionalProperties": {"type": "null"}},
    "not of a type": {"not": {"type": ["object", "array"]}},
    "oneOf of types": {"oneOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": INT}, NULL]},
    "oneOf that overlaps": {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]},
    # patterns
    "pattern: lookahead": {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d).{8,}$"},
    "pattern: unicode class": {"type": "string", "pattern": "^\\p{L}+$"},
    "pattern: version": {"type": "string", "pattern": "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?(?:\\+[0-9A-Za-z-]+)?$"},
    "pattern: phone": {"type": "string", "pattern": "^\\+?[1-9]\\d{1,14}$"},
    "pattern: hex color": {"type": "string", "pattern": "^#([A-Fa-f0-9]{6}|[A-Fa-f0-9]{3})$"},
    "pattern: path": {"type": "string", "pattern": "^(/[^/\\0]+)+/?$", "maxLength": 40},
    "pattern: two that meet": {"allOf": [{"type": "string", "pattern": "^[a-z0-9-]+$"}, {"pattern": "[0-9]$"}], "minLength": 3, "maxLength": 20},
    # numbers
    "number: exclusive decimals": {"type": "number", "exclusiveMinimum": 0.05, "exclusiveMaximum": 0.95},
    "number: money": {"type": "number", "multipleOf": 0.01},
    "number: latitude": {"type": "number", "minimum": -90, "maximum": 90},
    "number: port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "number: exclusive integers": {"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 5},
    "number: 1.0 as bounds": {"type": "integer", "minimum": 1.0, "maximum": 10.0},
    # sizes
    "size: enum of 5000": {"enum": [f"choice-{i * 7919 % 100003:05d}" for i in range(5000)]},
    "size: 300 properties": obj([f"p{i}" for i in range(0, 300, 3)], False, **{f"p{i}": (STR, INT, BOOL)[i % 3] for i in range(300)}),
    "size: nested 100": nested(100),
    "size: 60 branches": {"anyOf": [obj(None, False, kind={"const": f"k{i}"}, **{f"v{i}": INT}) for i in range(60)]},
    "size: long text": {"type": "string", "minLength": 200, "maxLength": 100000},
    "size: many items": {"type": "array", "items": INT, "minItems": 500, "maxItems": 2000},
    "size: 200 definitions": {"$defs": {f"d{i}": obj(["n"], False, n=INT, **({"next": ref(f"d{i + 1}")} if i < 199 else {})) for i in range(200)}, "$ref": "#/$defs/d0"},
    "typebox: recursive": {"type": "array", "items": {"$id": "T0", **obj(None, False, id=STR, nodes={"type": "array", "items": {"$ref": "T0"}})}},
    "typebox: record of numbers": {"type": "object", "patternProperties": {"^(0|[1-9][0-9]*)$": STR}, "additionalProperties": False},
    "store: package": {**obj(["name", "version"], False, name={"type": "string", "maxLength": 214, "minLength": 1, "pattern": "^(?:@[a-z0-9-]+/)?[a-z0-9-~][a-z0-9-._~]*$"}, version=STR, scripts={"type": "object", "additionalProperties": STR}, private={"anyOf": [BOOL, {"enum": ["false", "true"]}]}), "patternProperties": {"^_": True}},
    "store: workflow": obj(["on"], False, on={"anyOf": [{"enum": ["push", "pull"]}, {"type": "array", "items": {"enum": ["push", "pull"]}, "minItems": 1}]}, jobs={"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": obj(["runs-on"], False, **{"runs-on": STR})}, "minProperties": 1, "additionalProperties": False}),
    "recursion of two": {"$defs": {"A": obj(["v"], False, v=INT, b=ref("B")), "B": obj(["w"], False, w=STR, a=ref("A"))}, "$ref": "#/$defs/A"},
    "recursion: expressions": {"$defs": {"E": {"oneOf": [NUM, obj(None, False, op={"enum": ["+", "-"]}, l=ref("E"), r=ref("E"))]}}, "$ref": "#/$defs/E"},
    "reference to a property": obj(None, False, a={"type": "string", "maxLength": 2}, b={"$ref": "#/properties/a"}),
    "dependent required, round": {**obj([], False, a=INT, b=INT, c=INT, d=INT), "dependentRequired": {"a": ["b"], "b": ["a"], "c": ["d", "a"]}},
    "names that overlap": {"type": "object", "patternProperties": {"^a": INT, "b$": {"type": "integer", "minimum": 3, "maximum": 9}}, "additionalProperties": False, "maxProperties": 2},
    "anyOf of required": {**obj([], False, a=INT, b=INT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "allOf of choices": {"allOf": [{"anyOf": [obj([f"a{i}"], None, **{f"a{i}": INT}), obj([f"b{i}"], None, **{f"b{i}": INT})]} for i in range(4)]},
    "enum and more": {"enum": ["aa", "ab", "ba"], "pattern": "^a"},
    "matrix": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "array", "items": NUM, "minItems": 2, "maxItems": 2}},
    "pattern: 800 words": {"type": "string", "pattern": "^(" + "|".join(f"item{i:04d}x{'ab' * (i % 5)}" for i in range(800)) + ")$"},
    "pattern: not anchored": {"type": "string", "pattern": "foo", "maxLength": 8},
    "size: enum of 3000 objects": {"enum": [{"id": i, "name": f"n{i}"} for i in range(3000)]},
    "twice in required": {"type": "object", "properties": {"a": INT}, "required": ["a", "a"], "additionalProperties": False},
    "empty": {},
    "true": True,
}
