//===- MemoryPage.cpp - HTML page of the memory over a step ---------------===//
//
// The page has two pictures per memory over the ops of a function: the live bytes by
// category, and each buffer at its offset from its first to its last op. The page is
// self-contained: it needs no network and no other file.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/MemoryPage.h"

using namespace shale;

static const char *const kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Shale memory plan</title>
<style>
:root{color-scheme:light dark;--back:#fff;--text:#222;--soft:#555;--label:#444;--grid:#eee;--phase:#bbb;--axis:#888;--peak:#000;--stated:#a00;--tip:#222;--tiptext:#fff}
@media(prefers-color-scheme:dark){:root{--back:#16181c;--text:#e4e4e4;--soft:#b0b0b0;--label:#c8c8c8;--grid:#2c2f36;--phase:#5a5f68;--axis:#8a8f98;--peak:#fff;--stated:#ff8080;--tip:#e4e4e4;--tiptext:#16181c}}
body{font:14px/1.4 system-ui,sans-serif;margin:20px auto;max-width:1200px;padding:0 16px;color:var(--text);background:var(--back)}
h1{font-size:19px;margin:0 0 4px}h2{font-size:16px;margin:22px 0 2px}h3{font-size:13px;font-weight:600;margin:12px 0 2px}
p{margin:2px 0 6px;color:var(--soft)}table{border-collapse:collapse;margin:8px 0}td,th{padding:1px 14px 1px 0;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tr.sum td{border-top:1px solid var(--axis);font-weight:600}
svg{width:100%;background:var(--back);display:block}svg text{font:11px system-ui,sans-serif;fill:var(--label)}svg text.in{fill:#fff;pointer-events:none}
.grid{stroke:var(--grid)}.phase{stroke:var(--phase)}.axis{stroke:var(--axis);fill:none}.peak{stroke:var(--peak);stroke-dasharray:4 3;pointer-events:none}
.stated{stroke:var(--stated);stroke-dasharray:2 3}.edge{stroke:var(--back);stroke-width:.4}
.t:hover{stroke:var(--peak);stroke-width:1.5}
#tip{position:fixed;pointer-events:none;background:var(--tip);color:var(--tiptext);padding:6px 9px;border-radius:4px;font-size:12px;white-space:pre-wrap;
overflow-wrap:anywhere;max-width:560px;display:none;z-index:9}
.key span{display:inline-block;margin-right:16px}.key i{display:inline-block;width:11px;height:11px;margin-right:5px}
select{font:inherit;margin:6px 16px 6px 0}
</style></head><body>
<h1>Memory of a rank</h1><div id="sum"></div>
<label>Function <select id="fn"></select></label><label><input type="checkbox" id="fixed" checked> fixed parts: the process, its libraries, and buffers outside the arena</label>
<div class="key" id="key"></div>
<p>From left to right the function's ops in their order. Point at a color or a box to see which tensor it is and which node of the model made it.</p>
<div id="memories"></div><div id="tip"></div>
<script>const R=)html";

static const char *const kTail = R"html(;
const C={parameters:'#4878cf',gradients:'#d65f5f',optimizer:'#8c6bb1',activations:'#4daf4a',communication:'#ee854a',workspace:'#b0a070',fixed:'#999'};
const ORDER=['fixed','workspace','optimizer','parameters','gradients','communication','activations'];
const NS='http://www.w3.org/2000/svg',$=id=>document.getElementById(id),tip=$('tip'),W=1180,L=78,T=48;
// Labels are in rows of their own above the plot: phases, the most that is live, the stated peak.
const ROW=[12,27,42];
const UNITS=['B','KiB','MiB','GiB','TiB'];
function short(b,digits){let i=0,v=b;while(v>=1024&&i<4){v/=1024;i++}return (i?v.toFixed(digits===undefined?2:digits):v)+' '+UNITS[i]}
function exact(b){const [value,unit]=short(b).split(' ');return +value+' '+unit}
function bytes(b){return short(b)+(b>=1024?' ('+b.toLocaleString('en-US')+' bytes)':'')}
function node(parent,name,text,cls){const e=document.createElement(name);if(text!==undefined)e.textContent=text;if(cls)e.className=cls;parent.append(e);return e}
function el(svg,name,a,text){const e=document.createElementNS(NS,name);for(const k in a)e.setAttribute(k,a[k]);if(text!==undefined)e.textContent=text;svg.append(e);return e}
function hover(e,text){e.classList.add('t');e.addEventListener('mousemove',m=>{tip.textContent=typeof text==='function'?text(m):text;tip.style.display='block';
 const x=m.clientX+14,y=m.clientY+14;tip.style.left=Math.max(4,Math.min(x,innerWidth-tip.offsetWidth-8))+'px';
 tip.style.top=(y+tip.offsetHeight+8>innerHeight?Math.max(4,m.clientY-tip.offsetHeight-10):y)+'px'});
 e.addEventListener('mouseleave',()=>tip.style.display='none')}
function about(t,f){const at=p=>p+(f.ops[p]?' ('+f.ops[p]+')':'');
 return t.name+'\n'+(t.node?'node '+t.node+'\n':'')+bytes(t.bytes)+', '+t.category+
  (t.space==='state'?'\nthere all the time':'\nfrom op '+at(t.begin)+'\nto op '+at(t.end)+'\noffset '+t.offset.toLocaleString('en-US')+' in the arena')}
// At most six multiples of a power of two. They are multiples of a quarter of the unit, so two digits print them exactly.
function ticks(top){let s=1;while(top/s>6)s*=2;const list=[];for(let b=s;b<=top;b+=s)list.push(b);return list}
const names=['device','host'].filter(m=>R[m+'_peak_bytes']>0);
$('sum').textContent=R.ranks+' rank(s); stated peak of a rank '+names.map(m=>bytes(R[m+'_peak_bytes'])+(names.length>1?' of '+m+' memory':'')).join(', ');
for(const c in C){const s=node($('key'),'span'),i=node(s,'i');i.style.background=C[c];s.append(c)}
R.functions.forEach((f,i)=>{const o=node($('fn'),'option','@'+f.name+', '+short(f.peak_bytes)+' of the arena');o.value=i});
// A line over the plot, and its piece in the row of its label.
function rule(svg,x,y,H,kind){for(const [y1,y2] of [[y-10,y+3],[T,H-20]])el(svg,'line',{x1:x,x2:x,y1:y1,y2:y2,class:kind+' rule'})}
// A label beside a line at x; it is left out where it would lie over another one of its row, or over a line.
function place(svg,y,x,text,weight){const e=el(svg,'text',{x:x+4,y:y,style:'font-weight:'+(weight||'normal')},text),w=e.getComputedTextLength();
 if(x+4+w>W){e.setAttribute('x',x-4);e.setAttribute('text-anchor','end')}
 const r=e.getBBox();for(const o of svg.querySelectorAll('text'))if(o!==e){const b=o.getBBox();
  if(b.y<r.y+r.height&&r.y<b.y+b.height&&b.x<r.x+r.width&&r.x<b.x+b.width){e.remove();return}}
 for(const o of svg.querySelectorAll('.rule')){const at=+o.getAttribute('x1');if(r.x<at&&at<r.x+r.width&&r.y<+o.getAttribute('y2')&&+o.getAttribute('y1')<r.y+r.height){e.remove();return}}}
// Shortens a name to a width.
function fit(e,w){let name=e.textContent;while(name.length>1&&e.getComputedTextLength()>w){name=name.slice(0,Math.min(name.length-1,Math.floor(name.length*w/e.getComputedTextLength())));e.textContent=name+'\u2026'}}
function frame(svg,H,top,f,X){
 for(const b of ticks(top)){const y=T+(H-T-20)*(1-b/top);el(svg,'line',{x1:L,x2:W,y1:y,y2:y,class:'grid'});el(svg,'text',{x:L-6,y:y+4,'text-anchor':'end','data-axis':'bytes'},exact(b))}
 el(svg,'text',{x:L-6,y:H-16,'text-anchor':'end','data-axis':'bytes'},'0');
 const first=X.first,n=f.ops.length,decade=Math.pow(10,Math.floor(Math.log10(Math.max(10,n-first)))),step=(n-first)/decade>4?decade:(n-first)/decade>2?decade/2:decade/5;
 for(let p=Math.ceil(first/step)*step;p<n;p+=step)if(X(p)>L+30&&X(p)<W-20)el(svg,'text',{x:X(p),y:H-6,'text-anchor':'middle'},p);
 el(svg,'text',{x:L,y:H-6},'op');
 const at=f.phases.map((p,i)=>i?X(p.begin):L);for(const x of at)rule(svg,x,ROW[0],H,'phase');f.phases.forEach((p,i)=>place(svg,ROW[0],at[i],p.name));
 el(svg,'path',{d:'M'+L+' '+T+'V'+(H-20)+'H'+W,class:'axis'})}
function within(x){return Math.max(L,Math.min(x,W))}
function mark(svg,H,x,text){x=within(x);rule(svg,x,ROW[1],H,'peak');
 if(text)place(svg,ROW[1],x,text,'bold')}
function area(svg,H,f,m,X){
 const n=Math.max(f.ops.length,1),first=X.first,base={},tensors=f.tensors.filter(t=>t.memory===m),state=R.state.filter(t=>t.memory===m);
 const parts=R.lines.filter(l=>l.memory===m&&!l.held),fixed=$('fixed').checked,shown=fixed?parts:[];
 for(const t of state.concat(shown))base[t.category]=(base[t.category]||0)+t.bytes;
 const live={};for(const c in C)live[c]=new Float64Array(n+1);
 for(const t of tensors){const d=live[t.category];d[t.begin]+=t.bytes;if(t.end+1<=n)d[t.end+1]-=t.bytes}
 for(const c in C){let s=0;for(let p=0;p<=n;p++){s+=live[c][p];live[c][p]=s+(base[c]||0)}}
 const sums=Array.from({length:n},(_,p)=>ORDER.reduce((s,c)=>s+live[c][p],0)),stated=R[m+'_peak_bytes'],hidden=parts.reduce((s,l)=>s+l.bytes,0);
 const top=Math.max(fixed?stated:Math.max(...sums),1)*1.06,Y=b=>T+(H-T-20)*(1-b/top),low=new Float64Array(n+1);
 frame(svg,H,top,f,X);
 for(const c of ORDER){let up='',down='',any=false,last=-1;
  for(let p=first;p<n;p++){const a=low[p],b=a+live[c][p];any=any||b>a;
   up+='L'+X(p).toFixed(1)+' '+Y(b).toFixed(1)+'L'+X(p+1).toFixed(1)+' '+Y(b).toFixed(1);
   down='L'+X(p+1).toFixed(1)+' '+Y(a).toFixed(1)+'L'+X(p).toFixed(1)+' '+Y(a).toFixed(1)+down;low[p]=b}
  if(!any)continue;
  const e=el(svg,'path',{d:'M'+up.slice(1)+down+'Z',fill:C[c],'data-category':c});
  hover(e,v=>{const r=svg.getBoundingClientRect(),p=Math.min(n-1,Math.max(first,X.back((v.clientX-r.left)*W/r.width)));
   const big=state.concat(tensors).filter(t=>t.category===c&&(t.space==='state'||(t.begin<=p&&p<=t.end))).sort((a,b)=>b.bytes-a.bytes);
   const lines=shown.filter(l=>l.category===c);
   return c+' at op '+p+(f.ops[p]?' (node '+f.ops[p]+')':'')+': '+bytes(live[c][p])+
    lines.map(l=>'\n  '+short(l.bytes)+'  '+l.what).join('')+
    big.slice(0,6).map(t=>'\n  '+short(t.bytes)+'  '+t.name+(t.node?', node '+t.node:'')).join('')+(big.length>6?'\n  and '+(big.length-6)+' more':'')})}
 if(fixed)el(svg,'line',{x1:L,x2:W,y1:Y(stated),y2:Y(stated),class:'stated'});
 el(svg,'text',{x:W,y:ROW[2],'text-anchor':'end'},'stated peak '+short(stated)+(fixed?'':', with '+short(hidden)+' of fixed parts that are not shown'));
 const p=m==='host'?f.host_peak:f.peak;mark(svg,H,X(p+.5),'most live: '+short(sums[p]||0)+' at op '+p)}
function boxes(svg,H,f,m,X){
 const whole=R[m==='host'?'host_arena_bytes':'arena_bytes'],top=Math.max(whole,1),S=(H-T-20)/top;
 frame(svg,H,top,f,X);
 const peak=X((m==='host'?f.host_peak:f.peak)+.5),line=within(peak);
 for(const t of f.tensors.filter(t=>t.memory===m)){const x=X(t.begin),w=Math.max(X(t.end+1)-x,.4),h=Math.max(t.bytes*S,.4),y=H-20-(t.offset+t.bytes)*S;
  hover(el(svg,'rect',{'data-name':t.name,x:x.toFixed(1),y:y.toFixed(1),width:w.toFixed(1),height:h.toFixed(1),fill:C[t.category],class:w>3&&h>3?'edge':''}),about(t,f));
  // The name is in the larger part of the box beside the line of the peak.
  const right=x+w-line>line-x,cut=x<line&&line<x+w,from=cut&&right?line:x,room=(cut&&!right?line:x+w)-from;
  if(room>64&&h>12)fit(el(svg,'text',{class:'in',x:(from+4).toFixed(1),y:(y+h/2+4).toFixed(1)},t.name),room-8)}
 mark(svg,H,peak,'')}
function lines(parent,m){const t=node(parent,'table'),head=t.insertRow();for(const [x,c] of [['category',''],['bytes','n'],['','n'],['what','']])node(head,'th',x,c);
 let sum=0;for(const l of R.lines)if(l.memory===m){const r=t.insertRow();sum+=l.bytes;const k=node(r,'td');const i=node(k,'i');i.style.cssText='display:inline-block;width:9px;height:9px;margin-right:6px;background:'+C[l.category];k.append(l.category);
  node(r,'td',l.bytes.toLocaleString('en-US'),'n');node(r,'td',short(l.bytes),'n');node(r,'td',l.what)}
 const r=t.insertRow();r.className='sum';node(r,'td','stated peak');node(r,'td',sum.toLocaleString('en-US'),'n');node(r,'td',short(sum),'n');node(r,'td','')}
function draw(){const f=R.functions[$('fn').value||0],n=Math.max(f.ops.length,1),all=$('memories');all.replaceChildren();tip.style.display='none';
 const first=f.tensors.reduce((s,t)=>Math.min(s,t.begin),n-1),X=p=>L+(W-L)*(p-first)/(n-first);X.first=first;X.back=x=>first+Math.floor((n-first)*(x-L)/(W-L));
 for(const m of names){node(all,'h2',m==='host'?'Host memory':names.length>1?'Device memory':'Memory');
  node(all,'h3','Live bytes by category, with state '+($('fixed').checked?'and fixed parts ':'')+'below');area(el(all,'svg',{viewBox:'0 0 '+(W+4)+' 350','data-memory':m,'data-kind':'bytes'}),350,f,m,X);
  if(f.tensors.some(t=>t.memory===m)){node(all,'h3','The arena: each buffer at its offset, from its first to its last op; the background is free');
   boxes(el(all,'svg',{viewBox:'0 0 '+(W+4)+' 440','data-memory':m,'data-kind':'arena'}),440,f,m,X)}
  lines(all,m)}}
for(const id of ['fn','fixed'])$(id).addEventListener('change',draw);draw();
</script></body></html>
)html";

void shale::writeMemoryPage(const llvm::json::Value &report, llvm::raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream(text) << report;
  // Escape '<': a tensor's name must not end the script element.
  os << kHead;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '<')
      os << "\\u003c";
    else
      os << text[i];
  os << kTail;
}
