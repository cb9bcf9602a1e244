package splitc

import "testing"

// TestLayoutHash: what is registered under equal names with types of equal names hashes
// differently where the sizes differ, and where a variable is a procedure.
func TestLayoutHash(t *testing.T) {
	registry.mu.Lock()
	variables, procedures := registry.variables, registry.procedures
	registry.mu.Unlock()
	defer func() {
		registry.mu.Lock()
		registry.variables, registry.procedures = variables, procedures
		registry.mu.Unlock()
	}()
	hash := func(v *variable, p *procedure) uint32 {
		registry.mu.Lock()
		registry.variables, registry.procedures = map[string]*variable{}, map[string]*procedure{}
		if v != nil {
			registry.variables["x"] = v
		}
		if p != nil {
			registry.procedures["x"] = p
		}
		registry.mu.Unlock()
		l, err := newLayout()
		if err != nil {
			t.Fatal(err)
		}
		return l.hash
	}
	seen := map[uint32]int{}
	for i, h := range []uint32{
		hash(nil, nil),
		hash(&variable{kind: "main.state", size: 8}, nil),
		hash(&variable{kind: "main.state", size: 16}, nil),
		hash(nil, &procedure{kind: "main.state main.answer", args: 8, result: 8}),
		hash(nil, &procedure{kind: "main.state main.answer", args: 16, result: 8}),
		hash(nil, &procedure{kind: "main.state main.answer", args: 8, result: 16}),
	} {
		if j, twice := seen[h]; twice {
			t.Errorf("layouts %d and %d hash to %#x", j, i, h)
		}
		seen[h] = i
	}
}
