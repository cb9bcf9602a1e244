package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/paper"
)

// TestPaperDocument: the document shows plots that lie beside it.
func TestPaperDocument(t *testing.T) {
	call := paperCall{only: []string{"vmmc"}}
	papers, err := call.papers()
	if err != nil || len(papers) != 1 {
		t.Fatalf("%d papers: %v", len(papers), err)
	}
	results, err := paper.Run(context.Background(), papers, func(int, int, string) {})
	if err != nil {
		t.Fatal(err)
	}
	call.doc = filepath.Join(t.TempDir(), "all.md")
	if err := call.write(results, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(call.doc)
	if err != nil || !strings.Contains(string(text), "(all/vmmc-figure1.png)") {
		t.Errorf("the document does not show the figure: %v", err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(call.doc), "all", "vmmc-figure1.png")); err != nil {
		t.Error(err)
	}
}
