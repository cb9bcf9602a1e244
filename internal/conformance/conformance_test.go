package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestErrorCodes wants a rule for each code of asynchronous errors: one of the
// name <code>_<condition> that waits for it.
func TestErrorCodes(t *testing.T) {
	all := rules()
	for code := range (vipl.ErrorCounts{}) {
		prefix := strings.ToUpper(vipl.ErrorCode(code).String()) + "_"
		if !slices.ContainsFunc(all, func(r rule) bool {
			return r.call == "VipErrorCallback" && strings.HasPrefix(r.name, prefix)
		}) {
			t.Errorf("no rule for %s", prefix)
		}
	}
}
