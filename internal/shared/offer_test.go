package shared

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOffer: who has called gets the memory, and nobody else.
func TestOffer(t *testing.T) {
	m, o, err := NewOffer(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	early, err := NewCall(o.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if _, err := early.Take(4096); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("take before the offer serves: %v, want EAGAIN", err)
	}
	o.Serve()
	late, err := NewCall(o.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	got, err := early.Take(4096)
	if err != nil {
		t.Fatal(err)
	}
	if Store(m.Bytes(), 8, 7); Load(got.Bytes(), 8) != 7 {
		t.Error("the memory is not shared")
	}
	if _, err := late.Take(4096); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("take after the offer has served: %v, want EAGAIN", err)
	}
	if _, err := NewCall([NameSize]byte{1}); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("call of an unknown name: %v, want ECONNREFUSED", err)
	}
}
