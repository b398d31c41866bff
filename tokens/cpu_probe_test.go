package tokens_test
import ("testing";"fmt";"time";"runtime";"syscall";"github.com/modelchain/llm/tokens")
func cpuT() time.Duration { var r syscall.Rusage; syscall.Getrusage(1,&r); return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
func TestCPUProbe(t *testing.T){
 runtime.LockOSThread()
 for _,m:=range []string{"gpt-4o","gpt-4"}{ c:=tokens.For(m); c.Load(); h:=hostile(1<<20)
 for _,n:=range []string{"one letter","random letters","capitals","CJK","symbols","random bytes","blank mix","Thai","cut UTF-8"}{ best:=time.Hour; for range 10 { t0:=cpuT(); c.CountText(t.Context(),h[n]); best=min(best,cpuT()-t0)}; fmt.Println("cpu",m,n,best.Milliseconds())}}
}
