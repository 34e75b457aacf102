package delayqueue

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape is what a type demands of a JSON value beyond what encoding/json checks.
type shape struct {
	origin   reflect.Type
	nullable bool
	fields   []shapeField // of a struct, nil for other types
	element  *shape       // of a slice, an array or a map
	isMap    bool
	pointee  *shape // of a pointer
	scalar   bool   // a null is all that can be wrong
}

type shapeField struct {
	name     string
	required bool
	shape    *shape
}

// checks reports whether the type demands anything.
func (s *shape) checks() bool {
	return s.scalar || s.fields != nil || s.element != nil || s.pointee != nil
}

var (
	shapes              sync.Map // reflect.Type → *shape
	unmarshalerType     = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
	textUnmarshalerType = reflect.TypeOf((*encoding.TextUnmarshaler)(nil)).Elem()
)

// shapeOf returns the shape of a type, and remembers it.
func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	built := buildShape(t, map[reflect.Type]*shape{})
	known, _ := shapes.LoadOrStore(t, built)
	return known.(*shape)
}

// buildShape uses open for types that contain themselves.
func buildShape(t reflect.Type, open map[reflect.Type]*shape) *shape {
	if s, ok := open[t]; ok {
		return s
	}
	s := &shape{origin: t}
	open[t] = s
	pointer := reflect.PtrTo(t)
	if pointer.Implements(unmarshalerType) || pointer.Implements(textUnmarshalerType) {
		// The type decides by itself, also about null.
		s.nullable = true
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		s.pointee, s.nullable = buildShape(t.Elem(), open), true
	case reflect.Interface:
		s.nullable = true
	case reflect.Map, reflect.Slice, reflect.Array:
		s.nullable = t.Kind() != reflect.Array
		s.isMap = t.Kind() == reflect.Map
		if t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8 { // []byte is text in base 64
			s.element = buildShape(t.Elem(), open)
		}
	case reflect.Struct:
		s.fields = structFields(t, open)
		// Any object fits, and a job without a body, too.
		s.nullable = s.fields == nil
	default:
		s.scalar = true
	}
	return s
}

// structFields returns the fields that encoding/json decodes. Those of embedded structs belong to
// the outer one.
func structFields(t reflect.Type, open map[reflect.Type]*shape) []shapeField {
	var fields []shapeField
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" && options == "" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous && name == "" {
			if f.Type.Kind() == reflect.Struct {
				fields = append(fields, structFields(f.Type, open)...)
			}
			// The fields of an embedded pointer are optional together, so they are not checked.
			continue
		}
		if strings.Contains(","+options+",", ",string,") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		optional := hasNil(f.Type) || strings.Contains(","+options+",", ",omitempty,")
		fields = append(fields, shapeField{name, !optional, buildShape(f.Type, open)})
	}
	return fields
}

func hasNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return true
	}
	return false
}
