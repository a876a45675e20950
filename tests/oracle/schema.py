# SPDX-License-Identifier: MIT
"""JSON Schema cases, with verdicts from an independent validator (jsonschema, MIT; version in the output).

Every schema below is applied to every value of its row; the answers are tests/golden/suites/schema.json:
{"validator": "...", "cases": [{"schema": ..., "values": [...], "valid": [true, ...]}]}. Rows marked 7 are read as draft 7
(lists in `items`), the others as draft 2020-12.
Run: python tests/oracle/schema.py > tests/golden/suites/schema.json
"""
import json
import jsonschema

NUMBERS = [0, 1, -1, 1.0, 1.5, 2, 3, 7, 10, 100, "1", None, True]
STRINGS = ["", "a", "ab", "abc", "Paris", "paris", "é", "日本語", "😀😀", "a\nb", 1, None]
ARRAYS = [[], [1], [1, 2], [1, 1], [1, "a"], ["a", 1], [1, 1.0], [True, 1], [[1], [1]], [{"a": 1}, {"a": 1.0}], [1, 2, 3, 4], [0, False], "a", {}]
OBJECTS = [{}, {"a": 1}, {"a": "x"}, {"b": 2}, {"a": 1, "b": 2}, {"a": 1, "c": None}, {"x-1": 3}, {"x-1": "3"}, {"a": {"b": {"a": 1}}}, {"abc": 1}, [], 3, None]
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}, "unit": {"enum": ["celsius", "fahrenheit"]},
           "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "required": ["city"], "additionalProperties": False}
CALLS = [{"city": "Paris"}, {"city": "Paris", "unit": "celsius", "days": 3}, {"city": ""}, {"unit": "celsius"}, {"city": "Oslo", "unit": "kelvin"},
         {"city": "Oslo", "days": 3.0}, {"city": "Oslo", "days": 3.5}, {"city": "Oslo", "days": "3"}, {"city": "Oslo", "days": 15}, {"city": "Oslo", "wind": True}, {"city": None}, []]
TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}, "required": ["v"]}}}
TREES = [{"v": 1}, {"v": 1, "next": {"v": 2}}, {"v": 1, "next": {}}, {"v": 1, "next": {"v": 2, "next": {"v": "3"}}}, {}, 1]
ROWS = [(t, [None, True, False, 0, 1, 1.0, 1.5, -0.0, 1e300, "", "1", [], {}]) for t in
        [{"type": x} for x in ["null", "boolean", "number", "integer", "string", "array", "object", ["string", "null"], ["integer", "array"]]]]
ROWS += [(s, NUMBERS) for s in [{"minimum": 1}, {"maximum": 1}, {"exclusiveMinimum": 1}, {"exclusiveMaximum": 1}, {"minimum": 1, "maximum": 2}, {"multipleOf": 1},
         {"multipleOf": 2}, {"multipleOf": 0.5}, {"const": 1}, {"const": 1.0}, {"const": None}, {"enum": [1, "1", None]}, {"enum": [True]}, {"enum": []}, True, False, {}]]
ROWS += [(s, STRINGS) for s in [{"minLength": 1}, {"maxLength": 2}, {"minLength": 2, "maxLength": 3}, {"pattern": "a"}, {"pattern": "^a"}, {"pattern": "^[A-Z][a-z]+$"},
         {"pattern": "^.b"}, {"pattern": "^$"}, {"pattern": "(a|b)c?$"}, {"const": "é"}, {"enum": ["a", "Paris"]}, {"not": {"type": "string"}}, {"format": "date", "title": "x"}]]
ROWS += [(s, ARRAYS) for s in [{"items": {"type": "integer"}}, {"items": False}, {"minItems": 1}, {"maxItems": 2}, {"uniqueItems": True}, {"uniqueItems": False},
         {"prefixItems": [{"type": "integer"}, {"type": "string"}]}, {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, {"prefixItems": [{}, {}], "items": False},
         {"contains": {"const": 1}}, {"contains": {"type": "string"}, "minContains": 0}, {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3}, {"const": [1, 2]}, {"enum": [[1], [1, "a"]]}]]
ROWS += [(s, OBJECTS) for s in [{"required": ["a"]}, {"required": []}, {"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"type": "integer"}}, "additionalProperties": False},
         {"additionalProperties": {"type": "integer"}}, {"patternProperties": {"^x-": {"type": "integer"}}}, {"patternProperties": {"^x-": {}}, "additionalProperties": False},
         {"propertyNames": {"maxLength": 1}}, {"propertyNames": {"pattern": "^[a-c]+$"}}, {"minProperties": 1}, {"maxProperties": 1}, {"dependentRequired": {"a": ["b"]}},
         {"dependentSchemas": {"a": {"required": ["c"]}}}, {"const": {"b": 2, "a": 1}}, {"properties": {"a": False}}, {"type": "object", "not": {"required": ["a"]}}]]
ROWS += [(s, OBJECTS + NUMBERS) for s in [{"anyOf": [{"type": "integer"}, {"required": ["a"]}]}, {"oneOf": [{"type": "number"}, {"minimum": 2}]}, {"oneOf": [{"type": "integer"}, {"type": "object"}]},
         {"allOf": [{"type": "integer"}, {"minimum": 2}]}, {"allOf": [{"minimum": 2}], "anyOf": [{"maximum": 5}, {"const": 10}]}, {"not": {}}, {"not": {"not": {"type": "integer"}}},
         {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"type": "object"}}, {"if": {"type": "integer"}, "then": {"minimum": 2}}, {"if": {"type": "integer"}, "else": {"type": "null"}},
         {"then": False}, {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "integer"}}}, {"$ref": "#/anyOf/1", "anyOf": [{}, {"minimum": 2}]}, {"$ref": "#/$defs/i", "minimum": 3, "$defs": {"i": {"type": "integer"}}}]]
ROWS += [(WEATHER, CALLS), (TREE, TREES), ({"anyOf": [TREE["$defs"]["node"] | {"properties": {}}, {"type": "integer"}]}, TREES)]
ROWS7 = [(s, ARRAYS) for s in [{"items": [{"type": "integer"}, {"type": "string"}]}, {"items": [{"type": "integer"}], "additionalItems": False}, {"items": [{}], "additionalItems": {"type": "integer"}}, {"items": {"type": "integer"}, "additionalItems": False}]]


def main():
    cases = []
    for rows, validator in ((ROWS, jsonschema.Draft202012Validator), (ROWS7, jsonschema.Draft7Validator)):
        for schema, values in rows:
            v = validator(schema)
            cases.append({"schema": schema, "values": values, "valid": [v.is_valid(x) for x in values]})
    lines = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    print('{"validator": "jsonschema %s", "cases": [\n%s\n]}' % (__import__("importlib.metadata", fromlist=["x"]).version("jsonschema"), lines))


main()
