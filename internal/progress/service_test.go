package progress

import "testing"

// TestServiceRefused: the service does not wait for a lock that callers have, until it
// has looked often enough.
func TestServiceRefused(t *testing.T) {
	s := &service{engine: &Engine{}}
	for range 2 {
		s.engine.mu.Lock()
		for i := range serviceRefused - 1 {
			if s.lock() {
				t.Fatalf("at look %d the service has the lock too", i)
			}
		}
		s.refused = serviceRefused
		s.engine.mu.Unlock()
		if !s.lock() || s.engine.mu.TryLock() {
			t.Error("the service has no lock, though nobody else had it")
		}
		s.engine.mu.Unlock()
	}
}
