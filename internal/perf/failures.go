package perf

import (
	"errors"
	"fmt"
	"strings"
)

// failures are why measurements have no record: each cause once, with all that it has ended.
type failures struct {
	causes []error // as they were found; of equal texts the first
	cases  map[string][]string
}

// add notes why a case has no record.
func (f *failures) add(c Case, cause error) {
	text := cause.Error()
	if f.cases == nil {
		f.cases = map[string][]string{}
	}
	if len(f.cases[text]) == 0 {
		f.causes = append(f.causes, cause)
	}
	f.cases[text] = append(f.cases[text], c.String())
}

// err returns what was noted of so many measurements, nil if that is nothing.
func (f *failures) err(measurements int) error {
	var all []error
	for _, cause := range f.causes {
		cases := f.cases[cause.Error()]
		who := strings.Join(cases, "; ")
		if len(cases) == measurements && measurements > 1 {
			who = fmt.Sprintf("none of %d measurements could be made", measurements)
		}
		all = append(all, fmt.Errorf("%s: %w", who, cause))
	}
	return errors.Join(all...)
}

// bothHalves returns what a failure of this half and one of the other amount to. What keeps
// both from working, such as a key that cannot be read, is said once, and what the other half
// knows from this one alone is not said again.
func bothHalves(own, other error) error {
	if peer := (*peerError)(nil); own != nil && errors.As(other, &peer) {
		switch peer.text {
		case own.Error():
			return fmt.Errorf("both halves: %w", own)
		case (&peerError{text: own.Error()}).Error():
			return own
		}
	}
	return errors.Join(own, other)
}
