package delayqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// decodeBody decodes a body into target, whose type it has to fit. In addition to what
// encoding/json checks, a value must be neither null nor missing where Go has no nil, except for
// fields with omitempty. Unknown fields are ignored, so that producers can add some. The error says
// what does not fit.
func decodeBody[T any](data []byte, target *T) error {
	if err := json.Unmarshal(data, target); err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			path := "body"
			if wrongType.Field != "" {
				path += "." + wrongType.Field
			}
			return fmt.Errorf("%s is %s, expected %s", path, article(wrongType.Value), describe(wrongType.Type))
		}
		return fmt.Errorf("body: %w", err)
	}
	return fits(shapeOf(reflect.TypeOf(target).Elem()), data, "body")
}

// fits checks nulls and missing fields, which encoding/json does not.
func fits(s *shape, data []byte, path string) error {
	if !s.checks() {
		return nil
	}
	if isNull(data) {
		if s.nullable {
			return nil
		}
		return fmt.Errorf("%s is null, expected %s", path, describe(s.origin))
	}
	switch {
	case s.pointee != nil:
		return fits(s.pointee, data, path)
	case s.fields != nil:
		return fieldsFit(s, data, path)
	case s.element != nil && s.isMap:
		var values map[string]json.RawMessage
		if err := json.Unmarshal(data, &values); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for name, value := range values {
			if err := fits(s.element, value, path+"."+name); err != nil {
				return err
			}
		}
	case s.element != nil:
		var values []json.RawMessage
		if err := json.Unmarshal(data, &values); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, value := range values {
			if err := fits(s.element, value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func fieldsFit(s *shape, data []byte, path string) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, field := range s.fields {
		value, ok := values[field.name]
		if !ok {
			value, ok = findFold(values, field.name)
		}
		if !ok && field.required {
			return fmt.Errorf("%s.%s is missing, expected %s", path, field.name, describe(field.shape.origin))
		}
		if !ok {
			continue
		}
		if err := fits(field.shape, value, path+"."+field.name); err != nil {
			return err
		}
	}
	return nil
}

// findFold finds a name as encoding/json does if no name is exactly that of the field.
func findFold(values map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	for given, value := range values {
		if strings.EqualFold(given, name) {
			return value, true
		}
	}
	return nil, false
}

func isNull(data []byte) bool { return strings.TrimSpace(string(data)) == "null" }

// article returns encoding/json's word for a value with an article.
func article(kind string) string {
	switch {
	case strings.HasPrefix(kind, "number "):
		return "the " + kind
	case kind == "object" || kind == "array":
		return "an " + kind
	case kind == "bool":
		return "a boolean"
	}
	return "a " + kind
}

// describe returns the words of JSON for a type, followed by the type.
func describe(t reflect.Type) string {
	word := "a value"
	switch t.Kind() {
	case reflect.Bool:
		word = "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		word = "an integer"
	case reflect.Float32, reflect.Float64:
		word = "a number"
	case reflect.String:
		word = "a string"
	case reflect.Struct, reflect.Map:
		word = "an object"
	case reflect.Slice, reflect.Array:
		word = "an array"
	}
	return fmt.Sprintf("%s (%s)", word, t)
}
