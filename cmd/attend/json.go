package main

import (
	"bufio"
	"encoding/json"
)

// A jsonPrinter prints a JSON object a line.
type jsonPrinter struct {
	enc *json.Encoder
	err error // the first
}

func newJSONPrinter(w *bufio.Writer) *jsonPrinter {
	p := &jsonPrinter{enc: json.NewEncoder(w)}
	p.enc.SetEscapeHTML(false)
	return p
}

func (p *jsonPrinter) step(s step) { p.encode(s) }

func (p *jsonPrinter) table(t *table) error {
	p.encode(t)
	return p.err
}

func (p *jsonPrinter) encode(v any) {
	if err := p.enc.Encode(v); err != nil && p.err == nil {
		p.err = err
	}
}
