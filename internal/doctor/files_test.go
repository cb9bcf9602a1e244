package doctor

import (
	"os"
	"testing"
	"testing/fstest"
)

func tree(pairs ...string) files {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
	}
	return files{fsys}
}

func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files files
		want  float64
	}{
		{"nothing", tree(), 0},
		{"no limit", tree("proc/self/cgroup", "0::/", "sys/fs/cgroup/cpu.max", "max 100000"), 0},
		{"version 2", tree("proc/self/cgroup", "0::/a/b", "sys/fs/cgroup/a/b/cpu.max", "150000 100000"), 1.5},
		{"the one above has less", tree("proc/self/cgroup", "0::/a/b",
			"sys/fs/cgroup/a/b/cpu.max", "max 100000", "sys/fs/cgroup/a/cpu.max", "50000 100000"), 0.5},
		{"version 1", tree("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"), 3},
		{"nonsense", tree("proc/self/cgroup", "x\n0::/\n5:cpu:/", "sys/fs/cgroup/cpu.max", "1 0", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "many"), 0},
	} {
		if got := tt.files.quota(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestCPUs(t *testing.T) {
	for text, want := range map[string]int{"0": 1, "0-7": 8, "0-1,4,6-7": 5, "": 0, "x": 0, "3-1": 0} {
		if got := tree("sys/devices/system/cpu/online", text).cpus(); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestReadSysctl: a file of /proc/sys is read whole.
func TestReadSysctl(t *testing.T) {
	const name = "proc/sys/kernel/ostype"
	if got := (files{os.DirFS("/")}).read(name); got != "Linux" {
		t.Errorf("%s: %q", name, got)
	}
}
