package joining

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
)

// Report is the reason for the end of a job. Ranks send it in a message over a connection, and in the refusal of a
// connection. Its wire format is printable text:
//
//	fail RANK WHY
//	twice RANK ADDRESS ADDRESS
type Report struct {
	Rank          int
	Why           string         // why Rank has failed
	First, Second ethertype.Addr // addresses of two processes that both claim Rank, or zero
}

// ReportMax is the longest Report, in bytes.
const ReportMax = 224

// Twice reports whether r is about two processes that claim one rank.
func (r Report) Twice() bool { return r.Second != ethertype.Addr{} }

// String returns r in its wire format, truncated to ReportMax bytes.
func (r Report) String() string {
	if r.Twice() {
		return fmt.Sprintf("twice %d %v %v", r.Rank, r.First, r.Second)
	}
	text := fmt.Sprintf("fail %d %s", r.Rank, r.Why)
	return text[:min(len(text), ReportMax)]
}

// ParseReport parses the report of a rank of a job of size ranks. The text may be arbitrary. The
// result is safe to print.
func ParseReport(text string, size int) (r Report, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	number, rest, _ := strings.Cut(rest, " ")
	rank, err := strconv.Atoi(number)
	if err != nil || rank < 0 || rank >= size || len(text) > ReportMax {
		return Report{}, false
	}
	r.Rank = rank
	switch kind {
	case "fail":
		r.Why = printable(rest)
		return r, true
	case "twice":
		first, second, _ := strings.Cut(rest, " ")
		var err1, err2 error
		r.First, err1 = ethertype.ParseAddr(first)
		r.Second, err2 = ethertype.ParseAddr(second)
		return r, err1 == nil && err2 == nil && r.Twice()
	}
	return Report{}, false
}

// printable replaces unprintable characters in text from another rank.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text)
}
