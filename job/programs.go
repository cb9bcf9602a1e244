package job

import (
	"fmt"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// Several programs under one membership. Packages that a process uses together, such as one for
// messages and one for remote memory, belong to one rank of one job. If each joined the job by
// itself, all would look for the ranks under the same names, and the first would take the second
// for another process with the same rank. So the process joins once, and each package gets the
// Member. The package's ranks then use their own names on the member's NIC, and belong to the
// member's run.

// memberLook is the interval at which Meet checks whether the member has learned of a failure; its
// messages do not wake goroutines that wait for a program's own connections.
const memberLook = 50 * time.Millisecond

// addProgram implements joining.On.
func (m *Member) addProgram(p joining.Program) (*membership, error) {
	id := m.Identity()
	id.Program, id.Version, id.under = p.Name, p.Version, "/"+strings.ToLower(p.Name)
	if n := len(id.address(id.Size - 1)); n > vipl.MaxName {
		return nil, fmt.Errorf("job: the ranks of program %q of job %q would have names of %d bytes: the maximum is %d", p.Name, id.Job, n, vipl.MaxName)
	}
	t := m.t
	t.Lock()
	defer t.Unlock()
	if t.programs[p.Name] {
		return nil, fmt.Errorf("job: %s already uses this member", p.Name)
	}
	if t.programs == nil {
		t.programs = map[string]bool{}
	}
	t.programs[p.Name] = true
	j := newMembership(id, p.Links, p.Timeout)
	j.member = m
	return j, nil
}

// removeProgram makes the program's name available again.
func (m *Member) removeProgram(program string) {
	m.t.Lock()
	defer m.t.Unlock()
	delete(m.t.programs, program)
}
