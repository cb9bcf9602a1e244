package vipl

import "testing"

// TestServiceRefused: the service does not wait for a lock that callers have, until it
// has looked often enough.
func TestServiceRefused(t *testing.T) {
	s := &service{nic: &NIC{}}
	for range 2 {
		s.nic.mu.Lock()
		for i := range serviceRefused - 1 {
			if s.lock() {
				t.Fatalf("at look %d the service has the lock too", i)
			}
		}
		if s.refuse() {
			t.Error("the service would look in vain once more")
		}
		s.nic.mu.Unlock()
		if !s.lock() || s.nic.mu.TryLock() {
			t.Error("the service has no lock, though nobody else had it")
		}
		s.nic.mu.Unlock()
	}
}
