package perf

import (
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
)

// checkCases reports a stack among those that the user has named of which the
// plan, with defaults, has made no case: it would be missed in the output. The
// error wraps ErrPlan and names a case that could be.
func (p Plan) checkCases(named []string, cases []Case) error {
	for _, stack := range named {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Stack == stack }) {
			return fmt.Errorf("perf: stack %q %w %v; but it can: %v", stack, ErrPlan, p.asked(), p.instead(stack))
		}
	}
	if len(cases) == 0 {
		return fmt.Errorf("perf: no stack %w %v", ErrPlan, p.asked())
	}
	return nil
}

// asked says which cases the plan is of.
func (p Plan) asked() string {
	text := fmt.Sprintf("by the tests %v, waiting by %v, over the links %v", p.Tests, p.Waits, p.Links)
	if len(p.Sizes) > 0 {
		text += fmt.Sprintf(", in sizes of %v bytes", p.Sizes)
	}
	return text
}

// instead returns a case of a stack that is as near as can be to the plan.
func (p Plan) instead(stack string) Case {
	p.Stacks = []string{stack}
	for _, change := range []func(){
		func() { p.Sizes = nil },
		func() { p.Links = Links },
		func() { p.Waits, p.Levels = Waits, Levels },
		func() { p.Tests = Tests },
		func() { p.MTUs = []int{ethertype.MaxMTU} },
	} {
		change()
		for _, r := range p.runs() {
			return r.Cases(r.MTUs[0])[0] // a run without cases is none
		}
	}
	return Case{Stack: stack}
}
