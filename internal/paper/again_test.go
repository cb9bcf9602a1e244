package paper

import "testing"

// TestCallsAgain checks that the time of a call does not depend on where Go allocates its memory.
func TestCallsAgain(t *testing.T) {
	m := newVMMCModel()
	var between [][]byte
	var first float64
	for k := range 12 {
		us, err := m.calls(t.Context(), 1024)
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			first = us
		}
		if us != first {
			t.Errorf("a call takes %v us, and then %v", first, us)
		}
		between = append(between, make([]byte, 1100), make([]byte, 1100)) //lint:ignore SA4010 it only takes memory, so that the next run lies elsewhere
	}
}
