package vipl_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// TestProtocolDocument compares the tables of docs/protocol.md with the code.
func TestProtocolDocument(t *testing.T) {
	doc := readFile(t, "../docs/protocol.md")
	row := func(format string, args ...any) {
		t.Helper()
		if line := fmt.Sprintf(format, args...); !strings.Contains(doc, "\n"+line) {
			t.Errorf("docs/protocol.md has no row %q", line)
		}
	}
	count := func(heading string, want int) {
		t.Helper()
		if n := len(table(t, doc, heading)); n != want {
			t.Errorf("docs/protocol.md: the table with %q has %d rows, want %d", heading, n, want)
		}
	}

	kinds := 0
	for k := ethertype.KindInvalid + 1; !strings.HasPrefix(k.String(), "kind-"); k++ {
		sequenced := ""
		if k.Sequenced() {
			sequenced = "yes "
		}
		row("| %d | `%s` | %s|", k, k, sequenced)
		kinds++
	}
	count("| number | kind |", kinds)

	flags := 0
	for bit := range 16 {
		if f := ethertype.Flags(1) << bit; !strings.HasPrefix(f.String(), "0x") {
			row("| %d | `%s` |", bit, f)
			flags++
		}
	}
	count("| bit | flag |", flags)

	sealed := 0
	for k := framing.KindSealed; !strings.HasPrefix(k.String(), "kind-"); k++ {
		row("| %#x | `%s` |", uint8(k), k)
		sealed++
	}
	count("| kind | name |", sealed)
	count("| reason | meaning |", int(code.ReasonEnd))

	for _, layout := range []struct{ file, heading string }{
		{"../ethertype/doc.go", "| offset | size | field | meaning |"},
		{"internal/handshake/info.go", "| 28 | 1 |"},
		{"internal/directory/stations.go", "| 18 | | both"},
	} {
		documented, commented := table(t, doc, layout.heading), comment(t, layout.file)
		if len(documented) != len(commented) {
			t.Errorf("docs/protocol.md has %d fields, %s has %d", len(documented), layout.file, len(commented))
			continue
		}
		for i := range documented {
			if documented[i] != commented[i] {
				t.Errorf("field %d: docs/protocol.md has offset and size %q, %s has %q", i, documented[i], layout.file, commented[i])
			}
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// table returns the first two cells of each row of the Markdown table that has a line starting with
// part.
func table(t *testing.T, doc, part string) (rows []string) {
	t.Helper()
	at := strings.Index(doc, "\n"+part)
	if at < 0 {
		t.Fatalf("docs/protocol.md has no line %q", part)
	}
	begin := strings.LastIndex(doc[:at+1], "\n\n") + 2
	text, _, _ := strings.Cut(doc[begin:], "\n\n")
	for _, line := range strings.Split(text, "\n")[2:] { // without heading and rule
		cells := strings.Split(line, "|")
		rows = append(rows, strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2]))
	}
	return rows
}

// comment returns offset and size of each field in the layout that a comment of a Go file draws.
func comment(t *testing.T, file string) (rows []string) {
	t.Helper()
	_, after, ok := strings.Cut(readFile(t, file), "offset  size  field")
	if !ok {
		t.Fatalf("%s draws no layout", file)
	}
	for _, line := range strings.Split(after, "\n")[1:] {
		m := regexp.MustCompile(`^//\t +(\d+) +(\d+)?  +(\w+)`).FindStringSubmatch(line)
		switch {
		case m == nil && !strings.HasPrefix(line, "//\t"):
			return rows
		case m == nil: // continues the field above
		case m[3] == "payload":
		default:
			rows = append(rows, m[1]+" "+m[2])
		}
	}
	return rows
}
