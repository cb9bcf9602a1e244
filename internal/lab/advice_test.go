package lab

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		path, value, want string
	}{
		{"kernel/apparmor_restrict_unprivileged_userns", "1\n", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/apparmor_restrict_unprivileged_userns", "0\n", "run it as root"},
		{"kernel/unprivileged_userns_clone", "0\n", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0\n", "sudo sysctl -w user.max_user_namespaces=15000"},
		{"user/max_user_namespaces", "10\n", "run it as root"},
		{"user/max_net_namespaces", "0\n", "sudo sysctl -w user.max_net_namespaces=15000"},
	} {
		got := advice(fstest.MapFS{tt.path: {Data: []byte(tt.value)}})
		if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("with %s = %q the advice is\n%s\nwant only %q", tt.path, tt.value, got, tt.want)
		}
	}
	both := advice(fstest.MapFS{
		"user/max_user_namespaces":         {Data: []byte("0\n")},
		"kernel/unprivileged_userns_clone": {Data: []byte("0\n")},
	})
	if lines := strings.Split(both, "\n"); len(lines) != 2 {
		t.Errorf("two obstacles, but the advice is\n%s", both)
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		err       error
		forbidden bool
	}{
		{unix.EPERM, true}, {unix.ENOSPC, true}, {unix.EROFS, true}, {unix.EOPNOTSUPP, false}, {unix.EINVAL, false},
	} {
		err := explain("asking", tt.err)
		if errors.Is(err, ErrForbidden) != tt.forbidden || !strings.Contains(err.Error(), tt.err.Error()) {
			t.Errorf("explain(%v) = %v, forbidden: want %t", tt.err, err, tt.forbidden)
		}
	}
}
