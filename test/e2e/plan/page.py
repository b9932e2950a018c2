#!/usr/bin/env python3
"""Opens the page of `--report memory=FILE.html` in a browser and checks it.

usage: e2e page --build DIR [--browser chromium-headless-shell]

Headless Chromium opens the pages of plans from kilobytes to gigabytes, with host memory and several functions. In every picture of
every function:

- no script fails;
- the labels on the axis of bytes are distinct, no two labels overlap, and none lies on the plot or outside its picture;
- a name inside a box fits it; the line of the peak and those of phases cut no label;
- without the fixed parts, which a switch hides, the axis ends near what is live, and the rest of the picture says how much is not shown;
- text, lines and background differ in a light and in a dark browser, and the two have other backgrounds;
- pointing at a box shows the tensor that the report has there, and pointing at a color shows its category.

The test also changes the page once for each of these, and each change must be found.
Fails without Chromium (Debian's chromium-headless-shell, which `tools/scripts/prepare --tests` installs).
"""
import json
import re
import shutil
import subprocess

from runner import MODELS, Deviates, expect_deviation, main, run

GPT2 = ["gpt2/model.onnx", "--mesh", "fsdp=2", "--shard", "full"]
PLANS = {"small": [*GPT2, "--dim", "batch=4", "--dim", "sequence=64"],
         "host": [*GPT2, "--dim", "batch=4", "--dim", "sequence=64", "--offload", "all"],
         "functions": [*GPT2, "--dim", "batch=4", "--dim", "sequence=64", "--accumulate", "3"],
         "gigabyte": [*GPT2, "--dim", "batch=2048", "--dim", "sequence=128"],
         "dropout": ["dropout/model.onnx", "--dim", "batch=4", "--bind", "ids=tokens", "--bind", "labels=tokens+1"]}
CATCH = "<script>window.failures=[];addEventListener('error',e=>failures.push(e.message))</script>"
# Inspects the pictures of every function, and points at boxes and colors.
PROBE = r"""<pre id="probe"></pre><script>(()=>{
const found=[],tip=document.getElementById('tip'),select=document.getElementById('fn');
const box=e=>{const r=e.getBoundingClientRect();return [r.left,r.top,r.right,r.bottom]};
function point(e,x,y){const on=document.elementFromPoint(x,y);
 e.dispatchEvent(new MouseEvent('mousemove',{bubbles:true,clientX:x,clientY:y}));
 const text=getComputedStyle(tip).display==='none'?'':tip.textContent;e.dispatchEvent(new MouseEvent('mouseleave'));return {hit:on===e,text,gone:getComputedStyle(tip).display==='none'}}
const fixed=document.getElementById('fixed'),luminance=c=>{const [r,g,b]=c.match(/\d+/g).map(v=>(v/255)**2.2);return .2126*r+.7152*g+.0722*b};
const back=luminance(getComputedStyle(document.body).backgroundColor);
function contrast(c){const a=luminance(c);return (Math.max(a,back)+.05)/(Math.min(a,back)+.05)}
for(const option of select.options)for(const whole of [true,false]){select.value=option.value;fixed.checked=whole;fixed.dispatchEvent(new Event('change'));
 for(const svg of document.querySelectorAll('svg')){svg.scrollIntoView();
  const picture={function:option.textContent,memory:svg.dataset.memory,kind:svg.dataset.kind,whole,box:box(svg),labels:[],inside:[],plot:[],points:[],lines:[],contrast:99,faint:99};
  for(const e of svg.querySelectorAll('.rule'))picture.lines.push({peak:e.classList.contains('peak'),box:box(e)});
  for(const t of svg.querySelectorAll('text:not(.in)'))picture.contrast=Math.min(picture.contrast,contrast(getComputedStyle(t).fill));
  for(const e of svg.querySelectorAll('.peak,.stated'))picture.contrast=Math.min(picture.contrast,contrast(getComputedStyle(e).stroke));
  for(const e of svg.querySelectorAll('.grid,.phase'))picture.faint=Math.min(picture.faint,contrast(getComputedStyle(e).stroke));
  for(const t of svg.querySelectorAll('text'))if(t.textContent)picture[t.classList.contains('in')?'inside':'labels'].push({text:t.textContent,box:box(t),axis:t.dataset.axis||''});
  for(const e of svg.querySelectorAll('.t')){const b=box(e);picture.plot.push({box:b,category:e.dataset.category||'',name:e.dataset.name||''})
   if(e.dataset.name&&b[2]-b[0]>6&&b[3]-b[1]>6&&picture.points.length<40)picture.points.push({name:e.dataset.name,...point(e,(b[0]+b[2])/2,b[1]+2)});
   if(e.dataset.category&&e.tagName==='path'){const x=(b[0]+b[2])/2;for(let y=b[1]+1;y<b[3];y+=2)if(document.elementFromPoint(x,y)===e){picture.points.push({category:e.dataset.category,...point(e,x,y)});break}}}
  found.push(picture)}}
document.getElementById('probe').textContent=JSON.stringify({failures,found,back,text:contrast(getComputedStyle(document.body).color)})})()</script>"""
# Changes of a page, and the message that each must cause.
MUTANTS = [("draw();\n</script>", "draw();undefined.mutant\n</script>", "a script fails"),
           ("'data-axis':'bytes'},exact(b))", "'data-axis':'bytes'},short(b,0))", "the axis of bytes has the labels"),
           ("{x:L,y:H-6},'op')", "{x:L-20,y:H-16},'op')", "lies over another label"),
           ("{x:W,y:ROW[2],", "{x:W,y:H-40,", "lies over the plot"),
           ("{x:W,y:ROW[2],", "{x:W+60,y:ROW[2],", "reaches out of its picture"),
           (",t.name),room-8)", ",t.name.repeat(30)),9e9)", "does not fit its box"),
           ("svg text{font:11px system-ui,sans-serif;fill:var(--label)}", "svg text{font:11px system-ui,sans-serif;fill:#444}", "is hard to read in the dark"),
           ("--back:#16181c", "--back:#fff", "has the background of a light one"),
           ("return t.name+", "return t.node+", "pointing at")]
# The same for a page whose fixed parts are large, and where the line of the peak goes through boxes with names.
HIDDEN = [("const right=x+w-line>line-x,cut=x<line&&line<x+w", "const right=false,cut=false", "is cut by a line"), ("fixed?stated:Math.max(...sums)", "stated", "the axis ends at"), ("fixed?parts:[]", "parts", "so fixed parts are among them"), (":', with '+short(hidden)", ":', with '+short(stated)", "does not say")]


def browser_of(a):
    names = [a.browser] if a.browser else ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), None)


def probe(browser, work, page, dark=False):
    """Opens a page in the browser, which prefers light or dark pages, and returns the result of the probe."""
    path = work / "probe.html"
    path.write_text(page.replace("<body>", "<body>" + CATCH, 1).replace("</body>", PROBE + "</body>"))
    said = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,900", f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--user-data-dir={work / 'profile'}",
                           "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120)
    text = re.search(r'<pre id="probe">(.*?)</pre>', said.stdout, re.S)
    if said.returncode or not text:
        raise Deviates(f"{browser} ended with {said.returncode}: {said.stderr[-400:]}")
    result = re.sub("&lt;", "<", re.sub("&gt;", ">", text.group(1))).replace("&amp;", "&")
    if not result:
        raise Deviates("the script of the page did not finish")
    return json.loads(result)


def overlap(a, b, slack=0.5):
    return a[0] < b[2] - slack and b[0] < a[2] - slack and a[1] < b[3] - slack and b[1] < a[3] - slack


def in_bytes(text):
    value, unit = text.split()
    return float(value) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)


def check_picture(what, picture):
    """Checks the labels of one picture."""
    axis = [label["text"] for label in picture["labels"] if label["axis"] == "bytes"]
    if len(axis) < 3 or len(set(axis)) != len(axis):
        raise Deviates(f"{what}: the axis of bytes has the labels {axis}")
    for index, label in enumerate(picture["labels"]):
        if any(overlap(label["box"], other["box"]) for other in picture["labels"][index + 1:]):
            raise Deviates(f"{what}: '{label['text']}' lies over another label")
        if any(overlap(label["box"], mark["box"]) for mark in picture["plot"]):
            raise Deviates(f"{what}: '{label['text']}' lies over the plot")
        left, top, right, bottom = picture["box"]
        if label["box"][0] < left or label["box"][1] < top or label["box"][2] > right or label["box"][3] > bottom:
            raise Deviates(f"{what}: '{label['text']}' reaches out of its picture")
    for label in picture["inside"]:
        if not any(mark["box"][0] <= label["box"][0] and label["box"][2] <= mark["box"][2] for mark in picture["plot"]):
            raise Deviates(f"{what}: '{label['text']}' does not fit its box")
    # A label begins beside its own line.
    for label in picture["labels"] + picture["inside"]:
        own = label in picture["inside"]
        if any(line["box"][0] > label["box"][0] + 0.5 and overlap([line["box"][0] - 0.6, line["box"][1], line["box"][2] + 0.6, line["box"][3]], label["box"])
               for line in picture["lines"] if line["peak"] or not own):
            raise Deviates(f"{what}: '{label['text']}' is cut by a line")


def check_hidden(what, picture, report):
    """Checks a picture without the fixed parts."""
    texts = [label["text"] for label in picture["labels"]]
    most = next((in_bytes(text[len("most live: "):].split(" at ")[0]) for text in texts if text.startswith("most live: ")), None)
    # The label of the peak may be left out for another one.
    top = max(in_bytes(label["text"]) for label in picture["labels"] if label["axis"] == "bytes" and label["text"] != "0")
    if most is not None and not most / 2 < top <= most * 1.07:
        raise Deviates(f"{what}: the axis ends at {top}, and {most} are live")
    hidden = sum(line["bytes"] for line in report["lines"] if line["memory"] == picture["memory"] and not line.get("held"))
    if most is not None and most > (report[picture["memory"] + "_peak_bytes"] - hidden) * 1.01:
        raise Deviates(f"{what}: {most} are live, so fixed parts are among them")
    said = [in_bytes(found[1]) for text in texts if (found := re.search(r"with (\S+ \S+) of fixed parts that are not shown$", text))]
    if len(said) != 1 or abs(said[0] - hidden) > 0.006 * hidden + 1:
        raise Deviates(f"{what}: a label does not say that {hidden} bytes are not shown: {texts}")


def check_colors(browser, work, name, page):
    """Checks that a page can be read in a light and in a dark browser. Returns the result of the probe in a light one."""
    light, dark = probe(browser, work, page), probe(browser, work, page, dark=True)
    if light["back"] < 0.9 or dark["back"] > 0.05:
        raise Deviates(f"{name}: in a dark browser the page has the background of a light one, or the other way round")
    for result, kind in ((light, "light"), (dark, "dark")):
        if not result["failures"] and (result["text"] < 7 or any(picture["contrast"] < 4.5 or picture["faint"] < 1.05 for picture in result["found"])):
            raise Deviates(f"{name}: is hard to read in the {kind}: {result['text']}, {min(picture['contrast'] for picture in result['found'])}")
    return light


def check_page(browser, work, name, page, report):
    """Checks a page. Returns the numbers of pictures and of points."""
    result = check_colors(browser, work, name, page)
    if result["failures"]:
        raise Deviates(f"{name}: a script fails: {result['failures']}")
    memories = sum(report[memory + "_peak_bytes"] > 0 for memory in ("device", "host"))
    if len(result["found"]) < len(report["functions"]) * memories:
        raise Deviates(f"{name}: {len(result['found'])} pictures of {len(report['functions'])} functions in {memories} memories")
    names, points = {tensor["name"] for function in report["functions"] for tensor in function["tensors"]}, 0
    for picture in result["found"]:
        what = f"{name}, {picture['function']}, {picture['kind']} of {picture['memory']} memory"
        check_picture(what, picture)
        if picture["kind"] == "bytes" and not picture["whole"]:
            check_hidden(what, picture, report)
        for at in picture["points"]:
            points += 1
            wanted = at.get("name") or at["category"]
            if not at["hit"] or not at["text"].startswith(wanted) or not at["gone"]:
                raise Deviates(f"{what}: pointing at {wanted} shows '{at['text'][:60]}'")
            if "name" in at and at["name"] not in names:
                raise Deviates(f"{what}: the report has no tensor {at['name']}")
        if not picture["points"]:
            raise Deviates(f"{what}: there is nothing to point at")
    return len(result["found"]), points


def check(a, work):
    browser = browser_of(a)
    if not browser:
        raise Deviates("Chromium is not installed; run tools/scripts/prepare --tests, or name a browser with --browser")
    pictures = points = noticed = 0
    for name, (model, *flags) in PLANS.items():
        page, data = work / f"{name}.html", work / f"{name}.json"
        run([f"{a.build}/bin/shalec", MODELS / model, *flags, "--plan-only", "--report", f"memory={page}", "--report", f"memory={data}"], "shalec")
        report = json.loads(data.read_text())
        counts = check_page(browser, work, name, page.read_text(), report)
        pictures, points = pictures + counts[0], points + counts[1]
        for before, after, message in {"gigabyte": MUTANTS, "small": HIDDEN}.get(name, []):
            if page.read_text().count(before) != 1:
                raise Deviates(f"the page has no '{before}' to change")
            expect_deviation(lambda: check_page(browser, work, name, page.read_text().replace(before, after), report),
                             f"that '{before}' is '{after}'", message)
            noticed += 1
    return f"{len(PLANS)} pages, {pictures} pictures, {points} points; {noticed} mutants noticed"


if __name__ == "__main__":
    main(check, ("--browser", {"default": ""}), success="pages:")
