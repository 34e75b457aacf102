package delayqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

type address struct {
	City string `json:"city"`
}

type invoice struct {
	Order    string             `json:"order"`
	Amount   int                `json:"amount"`
	At       time.Time          `json:"at"`
	Note     string             `json:"note,omitempty"`
	Shop     *address           `json:"shop"`
	To       address            `json:"to"`
	Lines    []address          `json:"lines"`
	ByName   map[string]address `json:"by_name"`
	Any      any                `json:"any"`
	Raw      json.RawMessage    `json:"raw"`
	Parent   *invoice           `json:"parent"`
	Quoted   int                `json:"quoted,string"`
	Data     []byte             `json:"data"`
	internal int
	Ignored  int `json:"-"`
	embedded
}

type embedded struct {
	Inner int `json:"inner"`
}

const fitting = `{"order":"o","amount":1,"at":"2030-01-31T12:00:00Z","to":{"city":"c"},"inner":2`

func TestBodiesThatFitAreDecoded(t *testing.T) {
	for _, body := range []string{
		fitting + `}`,
		fitting + `,"unknown":[]}`,
		fitting + `,"shop":null,"lines":null,"by_name":null,"any":null,"parent":null,"note":"n"}`,
		fitting + `,"lines":[],"by_name":{},"raw":{"x":1},"quoted":"5","data":"aGk="}`,
		strings.Replace(fitting, `"order"`, `"ORDER"`, 1) + `}`,
		fitting + `,"parent":` + fitting + `}}`,
	} {
		var decoded invoice
		if err := decodeBody([]byte(body), &decoded); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if decoded.Order != "o" || decoded.To.City != "c" || decoded.Inner != 2 {
			t.Errorf("%s is decoded as %+v", body, decoded)
		}
	}
}

func TestBodiesThatDoNotFitSayWhat(t *testing.T) {
	for body, expected := range map[string]string{
		`null`:                                 "body is null, expected an object (delayqueue.invoice)",
		`[]`:                                   "body is an array, expected an object (delayqueue.invoice)",
		`"x"`:                                  "body is a string, expected an object (delayqueue.invoice)",
		fitting + `,"amount":"1"}`:             "body.amount is a string, expected an integer (int)",
		fitting + `,"amount":1.5}`:             "body.amount is the number 1.5, expected an integer (int)",
		fitting + `,"amount":null}`:            "body.amount is null, expected an integer (int)",
		`{"order":"o"}`:                        "body.amount is missing, expected an integer (int)",
		fitting + `,"at":"yesterday"}`:         "body:",
		fitting + `,"to":{}}`:                  "body.to.city is missing, expected a string (string)",
		fitting + `,"shop":{}}`:                "body.shop.city is missing, expected a string (string)",
		fitting + `,"lines":[{"city":""},{}]}`: "body.lines[1].city is missing, expected a string (string)",
		fitting + `,"lines":[null]}`:           "body.lines[0] is null, expected an object (delayqueue.address)",
		fitting + `,"by_name":{"a":{}}}`:       "body.by_name.a.city is missing, expected a string (string)",
		fitting + `,"parent":{"order":"p"}}`:   "body.parent.amount is missing, expected an integer (int)",
	} {
		err := decodeBody([]byte(body), new(invoice))
		if err == nil || !strings.HasPrefix(err.Error(), expected) {
			t.Errorf("%s:\n got %v\nwant %s", body, err, expected)
		}
	}
	if err := decodeBody([]byte(strings.Replace(fitting, `,"inner":2`, "", 1)+"}"), new(invoice)); err == nil ||
		!strings.HasPrefix(err.Error(), "body.inner is missing") {
		t.Errorf("a missing field of an embedded struct: %v", err)
	}
}

func TestScalarsAndFreeTypesAsBodies(t *testing.T) {
	fits := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("the body fits")
		}
	}
	fits(decodeBody([]byte(`null`), new(any)))
	fits(decodeBody([]byte(`null`), new(json.RawMessage)))
	fits(decodeBody([]byte(`null`), new(*int)))
	fits(decodeBody([]byte(`null`), new(struct{})))
	fits(decodeBody([]byte(`7`), new(uint8)))
	refused(decodeBody([]byte(`null`), new(int)))
	refused(decodeBody([]byte(`256`), new(uint8)))
	refused(decodeBody([]byte(`[1,null]`), new([]int)))
	refused(decodeBody([]byte(`7`), new(struct{})))
}
