package benchmarks

import (
	"os"
	"runtime"
	"testing"
)

// TestMain holds as much memory as a small service does. In a process that holds nothing the garbage collector runs every
// 4 MB, and a third and more of each figure here is its starting and stopping. It is the same for all that is compared.
func TestMain(m *testing.M) {
	heap := make([]byte, 64<<20)
	code := m.Run()
	runtime.KeepAlive(heap)
	os.Exit(code)
}
