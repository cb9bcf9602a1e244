package directory

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestReword: an error of the name service names what a program has asked for, and not the key of
// the directory.
func TestReword(t *testing.T) {
	cause := errors.New("silence")
	for _, tt := range []struct {
		scope string
		name  Name
		want  string
	}{
		{"", Name{Process: 1, ID: 7}, "nobody answers to VMMC process 1: silence"},
		{"x", Name{Process: 1}, `nobody answers to VMMC process 1 in job "x": silence`},
		{"", Name{Node: ethertype.MAC{2, 5: 1}, Process: 3}, "nobody answers to VMMC process 3 of node 02:00:00:00:00:01: silence"},
		{"", Name{Word: "board"}, `nobody answers to the word "board" of VMMC: silence`},
	} {
		s := &Segment{scope: tt.scope}
		err := s.reword(fmt.Errorf("nobody answers to %s: %w", strconv.Quote(tt.name.Key(tt.scope)), cause), tt.name)
		if err.Error() != tt.want || !errors.Is(err, cause) {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if err := s.reword(nil, tt.name); err != nil {
			t.Error(err)
		}
	}
}
