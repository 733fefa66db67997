package server

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openapiText string

// openapi answers /openapi.json.
func openapi(w http.ResponseWriter, _ *http.Request) { writeJSON(w, openapiText) }
