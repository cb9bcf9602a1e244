package vipl_test

import (
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestClosedMemory: a goroutine that is looking at memory from AllocMem, of any
// size, when its NIC is closed reads zeros, and may write; the process lives. The
// addresses are given back by DeregisterMem.
func TestClosedMemory(t *testing.T) {
	n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	if err != nil {
		t.Fatal(err)
	}
	var mems [][]byte
	var handles []vipl.MemHandle
	for _, size := range []int{1, 5000, 4<<20 + 1} {
		mem, h, err := n.AllocMem(size, nil)
		if err != nil {
			t.Fatal(err)
		}
		mem[0], mem[size-1] = 7, 7
		mems, handles = append(mems, mem), append(handles, h)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mem := range mems {
		if err := look(mem); err != nil {
			t.Errorf("%d bytes: %v", len(mem), err)
		}
	}
	for i, h := range handles {
		if err := n.DeregisterMem(h); err != nil {
			t.Error(err)
		}
		if look(mems[i]) == nil {
			t.Errorf("%d bytes are still mapped", len(mems[i]))
		}
		if err := n.DeregisterMem(h); err != vipl.ErrClosed {
			t.Errorf("given back twice: %v, want ErrClosed", err)
		}
	}
}

// look reads and writes memory that may be gone.
func look(mem []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	for _, i := range []int{0, len(mem) - 1} {
		if mem[i] != 0 {
			err = fmt.Errorf("byte %d is %d", i, mem[i])
		}
	}
	mem[0] = 9
	return err
}
